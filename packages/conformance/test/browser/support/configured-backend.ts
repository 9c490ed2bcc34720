// A module as a user might have it: unbundled, importing the packages by their names.
import { createReferenceBackend } from "@backplane/conformance";
import { BackendError } from "@backplane/core";

export const notBackends = [{ name: "no create" }];

export const unopenable = {
  name: "one without a device",
  create() {
    throw new BackendError("UNSUPPORTED", "there is no such device here");
  },
};

/** A function without options, instead of a list. */
export const createAnother = () => createReferenceBackend();

export default ["first", "second"].map((name) => ({ name, create: createReferenceBackend }));
