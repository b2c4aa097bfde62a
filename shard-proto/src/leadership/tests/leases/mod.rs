//! Leadership by lease, with as much of coordinators and regions as it takes to see a double home.

mod happen;
mod model;
mod random;
mod rules;
mod scenarios;
mod world;
