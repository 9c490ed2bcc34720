import { cpu } from "@backplane/backend-cpu";
import { webgpu } from "@backplane/backend-webgpu";
import { createReferenceBackend } from "@backplane/conformance";
import { type BackendProvider, BackendRegistry } from "@backplane/core";

const reference: BackendProvider = {
  name: "reference",
  probe: async () => ({
    available: true,
    device: { kind: "cpu", name: "reference", software: false, details: {} },
  }),
  create: createReferenceBackend,
};

/** What the network is tested on: the oracle in double precision and every real backend. */
export const registry: BackendRegistry = new BackendRegistry([reference, cpu(), webgpu()]);
