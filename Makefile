.PHONY: setup run test bench site clean
setup:
	./run --help >/dev/null
run:
	./run
test:
	./test
bench: setup
	cargo run --quiet --release --package wiretime-hw --example core_speed
	.venv/bin/python -m wiretime.bench
site: setup
	.venv/bin/mkdocs build --strict
clean:
	rm -rf target .venv build
