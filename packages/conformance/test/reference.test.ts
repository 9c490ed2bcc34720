// Tags: proof, pure, long
import { createReferenceBackend, describeBackend, loseReferenceDevice } from "#src/index.js";

// As every backend is tried; other seeds have seeds.test.ts.
describeBackend(
  { name: "the reference", create: createReferenceBackend, loseDevice: loseReferenceDevice },
  globalThis,
);
