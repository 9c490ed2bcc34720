// A module with a backend whose device can be lost.
import { createReferenceBackend, loseReferenceDevice } from "#src/index.js";

export default { name: "losable", create: createReferenceBackend, loseDevice: loseReferenceDevice };
