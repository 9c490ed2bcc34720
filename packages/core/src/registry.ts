import type { ComputeBackend } from "./backend.js";
import type { DeviceDescription } from "./capabilities.js";
import { BackendError, toBackendError } from "./errors.js";
import { describe } from "./handles.js";
import { Checks } from "./ops/checks.js";

/** Whether a backend can be opened here: its device, or the reason why not. */
export type Availability =
  | { readonly available: true; readonly device: DeviceDescription }
  | { readonly available: false; readonly reason: string };

/** A backend package's offer to a registry. It does nothing until it is called. */
export interface BackendProvider {
  /** The name of the backends that `create` makes. */
  readonly name: string;
  /** Looks for the device without keeping anything open. Never rejects because a device is missing. */
  probe(): Promise<Availability>;
  /** Returns a new backend, not yet initialised and independent of all others. */
  create(): ComputeBackend;
}

export type BackendListing = { readonly name: string } & Availability;

/** The backend that `open` chose, and those that it tried in vain before. */
export interface OpenedBackend {
  readonly name: string;
  /** Initialised. The caller must dispose of it. */
  readonly backend: ComputeBackend;
  readonly rejected: readonly { readonly name: string; readonly reason: BackendError }[];
}

/** The backends that a program may use, in order of preference. */
export class BackendRegistry {
  readonly #providers = new Map<string, BackendProvider>();

  /** Throws `INVALID_ARGUMENT` for what is no provider. */
  constructor(providers: Iterable<BackendProvider> = []) {
    if (typeof (providers as Partial<Iterable<BackendProvider>> | null)?.[Symbol.iterator] !== "function")
      new Checks("BackendRegistry").fail(
        "providers",
        `is ${describe(providers)}; allowed: a list of providers`,
      );
    for (const provider of providers) this.register(provider);
  }

  /** The names in the order of registration. */
  get names(): readonly string[] {
    return [...this.#providers.keys()];
  }

  /** Adds a provider. Throws `INVALID_ARGUMENT` if the name is already registered. */
  register(provider: BackendProvider): this {
    const checks = new Checks("register");
    checks.object("provider", provider);
    const { name, probe, create } = provider;
    if (typeof name !== "string" || name === "")
      checks.fail("provider", `has the name ${describe(name)}; allowed: a text`);
    if (this.#providers.has(name)) checks.fail("provider", `${describe(name)} is already registered`);
    for (const [member, method] of Object.entries({ probe, create }))
      if (typeof method !== "function")
        checks.fail("provider", `has ${describe(method)} as ${member}; allowed: a function`);
    this.#providers.set(provider.name, provider);
    return this;
  }

  /** Returns a new backend, not yet initialised. Throws `INVALID_ARGUMENT` if the name is not registered. */
  create(name: string): ComputeBackend {
    const provider = this.#provider(name);
    try {
      const backend: Partial<ComputeBackend> | undefined = provider.create();
      if (typeof backend?.init !== "function" || typeof backend.dispose !== "function")
        throw new Error(`${name} made ${describe(backend)} in place of a backend`);
      return backend as ComputeBackend;
    } catch (error) {
      throw toBackendError(error, "UNSUPPORTED", "create");
    }
  }

  #provider(name: string): BackendProvider {
    const provider = this.#providers.get(name);
    if (provider === undefined)
      throw new BackendError(
        "INVALID_ARGUMENT",
        `create: ${describe(name)} is not registered; allowed: ${this.names.join(", ") || "none are"}`,
        { operation: "create", argument: "name" },
      );
    return provider;
  }

  /** Returns every registered backend with its device, or the reason why it has none here. */
  list(): Promise<readonly BackendListing[]> {
    const probe = async (provider: BackendProvider): Promise<Availability> => {
      try {
        const found: Partial<Availability> | null | undefined = await provider.probe();
        if (typeof found?.available === "boolean") return found as Availability;
        const reason = `probe: returned ${describe(found)}; allowed: an object with available, true or false`;
        return { available: false, reason };
      } catch (error) {
        return { available: false, reason: toBackendError(error, "UNSUPPORTED", "probe").message };
      }
    };
    const providers = [...this.#providers.values()];
    return Promise.all(
      providers.map(async (provider) => ({ name: provider.name, ...(await probe(provider)) })),
    );
  }

  /**
   * Opens the first backend of `chain` that can be opened. Default: all, in the order of registration. Throws
   * `UNSUPPORTED` with every reason if none can be opened.
   */
  async open(chain: string | readonly string[] = this.names): Promise<OpenedBackend> {
    const names = typeof chain === "string" ? [chain] : chain;
    if (!Array.isArray(names))
      new Checks("open").fail("chain", `is ${describe(names)}; allowed: a name, or a list of names`);
    // Check all names first: a misspelt fallback is an error even if it is never reached.
    for (const name of names) this.#provider(name);
    const rejected: { name: string; reason: BackendError }[] = [];
    for (const name of names) {
      let backend: ComputeBackend | undefined;
      try {
        backend = this.create(name);
        await backend.init();
        return { name, backend, rejected };
      } catch (error) {
        rejected.push({ name, reason: toBackendError(error, "UNSUPPORTED", "open") });
        // The reason stands, whether or not closing fails, and the rest of the chain is still to be tried.
        await backend?.dispose().catch(() => {});
      }
    }
    const reasons = rejected.map(({ name, reason }) => `${name}: ${reason.message}`).join("; ");
    throw new BackendError(
      "UNSUPPORTED",
      `open: no backend could be opened (${reasons || "none was named"})`,
      {
        operation: "open",
        cause: rejected[0]?.reason,
      },
    );
  }
}
