export { createReferenceBackend as default } from "#src/index.js";
