import { createReferenceBackend, describeBackend, laws, loseReferenceDevice } from "#src/index.js";

// Other random cases than those that every backend is tried on; what is fixed need not run again.
const random = laws.filter(({ name }) => !name.includes("larger shapes"));
for (const seed of [2, 3])
  describeBackend(
    {
      name: `the reference, seed ${seed},`,
      create: createReferenceBackend,
      loseDevice: loseReferenceDevice,
      options: { seed, runs: 5, laws: random },
    },
    { describe, it, before, after },
  );
