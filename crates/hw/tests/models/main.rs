//! Tests of the models from outside. They are one program: of several, each would compile every device anew.

mod chaos;
mod closed_forms;
mod cpi_stack;
mod examples;
mod exercise;
mod forgetting;
mod fuzz_mlx5;
mod fuzz_registers;
mod interrupts;
mod ordering;
mod pairs;
mod perturb;
mod qdma;
mod repeat;
mod sketch;
