import {
  type BackendProvider,
  BackendRegistry,
  type Capabilities,
  checkNames,
  type SwapReport,
  SwitchableBackend,
} from "@backplane/core";
import type * as core from "@tensorflow/tfjs-core";
import { BackplaneBackend } from "./backend.js";
import { kernels } from "./kernels/list.js";
import { type KernelProfile, KernelTimes } from "./profile.js";
import type { TensorStore } from "./store.js";

/** What is used of `@tensorflow/tfjs-core`, or of a package that exports all of it, such as `@tensorflow/tfjs`. */
export type TensorFlow = Pick<
  typeof core,
  | "engine"
  | "findBackendFactory"
  | "registerBackend"
  | "registerKernel"
  | "removeBackend"
  | "setBackend"
  | "unregisterKernel"
>;

export interface RegisterOptions {
  /**
   * The name for `tf.setBackend`; without underscores. Default: `backplane`. TensorFlow.js looks kernels up by a text that it
   * joins of both names, and finds short ones faster: with `bp` calls on a few numbers take 0.8 to 0.95 of the time.
   */
  readonly name?: string;
  /** Whether `register` also makes it the backend in use. Default: true. */
  readonly use?: boolean;
  /**
   * Kernels whose inputs and results have at most so many elements each, which only the host has so far, stay there if
   * they move, combine, compare, choose or reduce numbers, and functions of a sixteenth as many: a call of a device takes
   * longer. Functions, quotients and sums of several numbers are computed in float64 and rounded once, so that last bits
   * may differ from those of a device. 0: they all go to the device. Default: 1000.
   */
  readonly hostElements?: number;
  /**
   * Whether chains of elementwise kernels become one call of the device. Their results are then computed when something else
   * needs them: another kind of kernel, a read, `tf.time` or `profile`, but not `compute.synchronize`. Errors of the
   * device come then, too. On the CPU all bits are the same as without; a GPU may round a product and a sum of one
   * chain once in place of twice, or order sums and products otherwise. Default: true.
   */
  readonly fusion?: boolean;
}

/** A backend of TensorFlow.js, as long as it is registered. */
export interface Registration {
  /** The name for `tf.setBackend`. */
  readonly name: string;
  /** The backend that computes, for calls of one's own. */
  readonly compute: SwitchableBackend;
  /** The name of the backend in use, such as `cpu`. */
  readonly current: string;
  readonly capabilities: Capabilities;
  /**
   * Moves all tensors to another backend, and computes there from then on. It may be awaited anywhere: between two batches
   * of `model.fit`, too. If the device was lost, tensors that the host has are written again, and `SwapReport.lost`
   * lists what is gone: every use of such tensors fails with `DEVICE_LOST`.
   */
  use(name: string): Promise<SwapReport>;
  /** Runs `body`, and returns which kernels it called, how often, and for how long the host was busy with them. */
  profile(body: () => unknown): Promise<KernelProfile>;
  /** Removes the backend from TensorFlow.js, with its tensors, and closes the device. */
  dispose(): Promise<void>;
}

/**
 * Registers a backend of TensorFlow.js that computes on the first of `providers` that can be opened here:
 *
 *   import * as tf from "@tensorflow/tfjs-core";
 *   const registration = await register(tf, [webgpu(), cpu()]);
 *
 * Rejects with a `BackendError` of code `UNSUPPORTED` if none can be opened. Close it with `dispose`.
 */
export async function register(
  tf: TensorFlow,
  providers: Iterable<BackendProvider>,
  options: RegisterOptions = {},
): Promise<Registration> {
  checkNames("register", options, ["name", "use", "hostElements", "fusion"]);
  const { name = "backplane", use = true, hostElements = defaultHostElements, fusion = true } = options;
  if (typeof name !== "string" || name === "" || name.includes("_"))
    throw new TypeError(
      `register: name is ${JSON.stringify(name)}; allowed: a text that is not empty and has no underscore`,
    );
  if (!Number.isSafeInteger(hostElements) || hostElements < 0)
    throw new TypeError(
      `register: hostElements is ${String(hostElements)}; allowed: a whole number of at least 0`,
    );
  if (typeof fusion !== "boolean")
    throw new TypeError(`register: fusion is ${String(fusion)}; allowed: true or false`);
  assertFree(tf, name);
  const compute = new SwitchableBackend(new BackendRegistry(providers));
  const open = new Set<TensorStore>();
  const times = new KernelTimes();
  const factory = () => {
    const own = { hostElements, fusion };
    const backend = new BackplaneBackend(compute, tf.engine(), (ended) => open.delete(ended), own);
    open.add(backend);
    return backend;
  };
  const registered: string[] = [];
  const close = async () => {
    try {
      if (tf.findBackendFactory(name) === factory) tf.removeBackend(name);
      for (const kernelName of registered.splice(0)) tf.unregisterKernel(kernelName, name);
    } finally {
      await compute.dispose();
    }
  };

  try {
    await compute.init();
    // Somebody may have taken the name meanwhile.
    assertFree(tf, name);
    tf.registerBackend(name, factory, priority);
    for (const [kernelName, kernel] of Object.entries(kernels)) {
      const kernelFunc = times.timed(kernelName, kernel);
      tf.registerKernel({ kernelName, backendName: name, kernelFunc });
      registered.push(kernelName);
    }
    if (use && !(await tf.setBackend(name)))
      throw new Error(`register: TensorFlow.js cannot make ${name} the backend in use`);
  } catch (error) {
    await close();
    throw error;
  }

  let closing: Promise<void> | undefined;
  return {
    name,
    compute,
    get current() {
      return compute.current;
    },
    get capabilities() {
      return compute.capabilities;
    },
    async use(next) {
      const report = await compute.use(next);
      for (const backend of open) backend.restore();
      return { ...report, lost: compute.lost };
    },
    profile: (body) =>
      times.profile(body, () => {
        for (const backend of open) backend.computeAll();
        return compute.synchronize();
      }),
    dispose() {
      closing ??= close();
      return closing;
    },
  };
}

function assertFree(tf: TensorFlow, name: string): void {
  if (tf.findBackendFactory(name) !== null)
    throw new Error(`register: a backend named ${name} is registered already; choose another name`);
}

/** As tfjs-backend-webgpu has it. */
const defaultHostElements = 1000;

/** Above that of tfjs-backend-cpu (1), -webgl (2) and -webgpu (3): who registers a backend means to use it. */
const priority = 4;
