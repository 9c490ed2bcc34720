// A module with several configurations, and exports of other kinds.
import { createReferenceBackend, mutants } from "#src/index.js";

const { create } = mutants.find(({ name }) => name === "writes one element past the end")!;

export default [
  { name: "plain", create: createReferenceBackend },
  { name: "with overrun/2", create },
];

export const createLater = async () => createReferenceBackend();

/** A function with options, all of which have defaults, that makes a provider. */
export const configured = async ({ name = "configured" } = {}) => ({ name, create: createReferenceBackend });

export const nonsense = 42;

export const nothing = () => {};

export const halfway = () => ({ name: "halfway", create: () => ({ name: "halfway", init: async () => {} }) });
