// A backend that does all it should until it is disposed of.
import { ForwardingBackend } from "@backplane/core";
import { createReferenceBackend } from "#src/index.js";

class Undisposable extends ForwardingBackend {
  override async dispose(): Promise<void> {
    await super.dispose();
    throw new Error("it is still there");
  }
}

export default (): Undisposable => new Undisposable(createReferenceBackend());
