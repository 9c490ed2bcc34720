// A backend that leaves something running.
import { createReferenceBackend } from "#src/index.js";

export default () => {
  setInterval(() => {}, 1000);
  return createReferenceBackend();
};
