.PHONY: setup run test bench fuzz release image site clean
setup:
	./run --help >/dev/null
run:
	./run
test:
	./test
bench: setup
	. ./scripts/prepare.sh; use_rust_beside; \
	cargo run --quiet --release --package wiretime-hw --example core_speed && .venv/bin/python -m wiretime.bench
# Each target for HOURS.
HOURS = 1
fuzz: setup
	scripts/fuzz.sh $$(($(HOURS) * 3600))
NAME = dist/wiretime-$$(.venv/bin/python -c 'import wiretime; print(wiretime.__version__)')-$$(uname -m)
release: setup
	mkdir -p dist
	.venv/bin/wiretime setup --release $(NAME).tar.xz --wheel dist
image: setup
	scripts/image.sh $(NAME).oci.tar
site: setup
	.venv/bin/mkdocs build --strict
clean:
	rm -rf target .venv build
