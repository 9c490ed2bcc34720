// A backend for a device that is not there.
import { BackendError } from "@backplane/core";
import { createReferenceBackend } from "#src/index.js";

export default () => {
  const backend = createReferenceBackend();
  backend.init = () =>
    Promise.reject(new BackendError("UNSUPPORTED", "init: no such device on this machine"));
  return backend;
};
