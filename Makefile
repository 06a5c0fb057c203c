.PHONY: setup run test bench fuzz release site clean
setup:
	./run --help >/dev/null
run:
	./run
test:
	./test
bench: setup
	cargo run --quiet --release --package wiretime-hw --example core_speed
	.venv/bin/python -m wiretime.bench
# Each target for HOURS.
HOURS = 1
fuzz: setup
	scripts/fuzz.sh $$(($(HOURS) * 3600))
release: setup
	mkdir -p dist
	.venv/bin/wiretime setup --release dist/wiretime-$$(.venv/bin/python -c 'import wiretime; print(wiretime.__version__)')-$$(uname -m).tar.xz
site: setup
	.venv/bin/mkdocs build --strict
clean:
	rm -rf target .venv build
