import { toBackendError } from "@backplane/core";

/** Waits for a module that is loaded when it is needed. Rejects with `UNSUPPORTED` if a page cannot load it. */
export async function loaded<Module>(operation: string, module: Promise<Module>): Promise<Module> {
  try {
    return await module;
  } catch (error) {
    throw toBackendError(error, "UNSUPPORTED", operation);
  }
}
