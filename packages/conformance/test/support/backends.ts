import type { Accuracy, ComputeBackend, Numerics } from "@backplane/core";
import { mutants } from "#src/index.js";

/** The weakest thing that can be declared. */
export const noPromises: Numerics = {
  ...{ nan: "unspecified", infinity: "unspecified", subnormals: "flushed", signedZero: "unspecified" },
  ...{ rounding: "unspecified", deterministic: false },
};

export function mutant(name: string): () => ComputeBackend {
  const found = mutants.find((mutant) => mutant.name === name);
  if (found === undefined) throw new Error(`there is no mutant named ${name}`);
  return found.create;
}

/** Any backend, with other promises than its own, and perhaps another accuracy. For laws that leave `init` alone. */
export function withPromises(
  create: () => ComputeBackend,
  promises: Partial<Numerics>,
  accuracy?: Accuracy,
): () => ComputeBackend {
  return () => {
    const backend = create();
    const init = backend.init.bind(backend);
    backend.init = async () => {
      await init();
      const { capabilities } = backend;
      const numerics = { ...capabilities.numerics, ...promises };
      const declared = { ...capabilities, numerics, ...(accuracy === undefined ? {} : { accuracy }) };
      Object.defineProperty(backend, "capabilities", { get: () => declared });
    };
    return backend;
  };
}
