// A backend that ends the process, as native code may.
import { createReferenceBackend } from "#src/index.js";

export default () => {
  const backend = createReferenceBackend();
  backend.unary = () => process.exit(0);
  return backend;
};
