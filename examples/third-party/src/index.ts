import type { BackendProvider } from "@backplane/core";
import { LazyBackend } from "./lazy-backend.js";
import { capabilities } from "./offers.js";

/** Offers the backend to a `BackendRegistry`, and to the conformance suite. */
export const lazy: BackendProvider = {
  name: "lazy",
  probe: async () => ({ available: true, device: capabilities.device }),
  create: () => new LazyBackend(),
};

export default lazy;
