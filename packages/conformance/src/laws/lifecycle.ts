import {
  type BackendState,
  type ComputeBackend,
  checkAccuracy,
  type DeviceHandle,
  operationNames,
  transformedConvolutionNames,
} from "@backplane/core";
import { bytesOf, check, law, pattern, refuses, rejects, sameBytes } from "../kit/checks.js";
import type { Law } from "../law.js";
import { settled } from "../patience.js";
import { invoke, smallCalls } from "./calls.js";

const topic = "lifecycle";

/** Checks that every call that needs a device fails with this code, even if the call has other errors. */
export async function refusesEverything(
  backend: ComputeBackend,
  code: "NOT_INITIALIZED" | "DISPOSED" | "DEVICE_LOST",
  handle: DeviceHandle,
): Promise<void> {
  const calls: Readonly<Record<string, () => unknown>> = {
    alloc: () => backend.alloc(4),
    free: () => backend.free(handle),
    copyHtoD: () => backend.copyHtoD(handle, new Uint8Array(1)),
    copyDtoD: () => backend.copyDtoD(handle, handle, 1),
    fill: () => backend.fill(handle, 0, 1),
    native: () => backend.native(handle),
    flush: () => backend.flush(),
    trim: () => backend.trim(),
    copyDtoHSync: () => backend.copyDtoHSync(new Uint8Array(1), handle),
  };
  const expected = { NOT_INITIALIZED: "new", DISPOSED: "disposed", DEVICE_LOST: "lost" }[code];
  check(
    backend.state === expected,
    `state is ${backend.state} where calls are ${code}; expected: ${expected}`,
  );
  for (const [name, call] of Object.entries(calls)) refuses(code, name, call);
  for (const name of operationNames) {
    const operands = Object.fromEntries(Object.keys(smallCalls[name].operands).map((key) => [key, handle]));
    // Operations that a backend lacks may be refused for that reason first.
    if (backend.supports(name, { kind: smallCalls[name].kind }))
      refuses(code, name, () => invoke(backend, smallCalls[name], "f32", operands));
  }
  await rejects(code, "copyDtoH", () => backend.copyDtoH(new Uint8Array(1), handle));
  await rejects(code, "synchronize", () => backend.synchronize());
}

export function checkEmpty(backend: ComputeBackend): void {
  const { peakBytes: _, ...counted } = backend.memory();
  const counts = JSON.stringify(counted);
  check(
    Object.values(counted).every((count) => count === 0),
    `memory() counts ${counts} where there is no device`,
  );
}

/** They may come and go at any time. */
function checkListeners(backend: ComputeBackend): void {
  for (const listen of ["onLost", "onError"] as const) {
    const stop: unknown = backend[listen](() => {});
    check(typeof stop === "function", `${listen} answers with ${String(stop)}`);
    stop();
  }
}

export const lifecycleLaws: readonly Law[] = [
  law(topic, "before init every call is refused as NOT_INITIALIZED", async ({ unopened, backend }) => {
    const closed = await unopened();
    const foreign = backend.alloc(4);
    try {
      refuses("NOT_INITIALIZED", "capabilities", () => closed.capabilities);
      await refusesEverything(closed, "NOT_INITIALIZED", foreign);
      checkEmpty(closed);
      checkListeners(closed);
      check(typeof closed.name === "string" && closed.name !== "", "name is empty before init");
    } finally {
      backend.free(foreign);
    }
  }),

  law(topic, "init opens once, however often it is called", async ({ unopened }) => {
    const instance = await unopened();
    const first = instance.init();
    check(instance.init() === first, "a second init() while the first is under way gives another promise");
    await settled(first, "init");
    check(instance.init() === first, "init() after it has resolved gives another promise");
    const handle = instance.alloc(4);
    await settled(instance.init(), "init");
    sameBytes(await bytesOf(instance, handle, 4), new Uint8Array(4), "an allocation after a repeated init()");
  }),

  law(
    topic,
    "state is new until init has opened the device, then open, and disposed as soon as that is asked for",
    async ({ unopened }) => {
      const instance = await unopened();
      const expect = (state: BackendState, when: string) =>
        check(instance.state === state, `state is ${instance.state} ${when}; expected: ${state}`);
      expect("new", "before init");
      const opening = instance.init();
      expect("new", "while init is under way");
      await settled(opening, "init");
      expect("open", "after init");
      const handle = instance.alloc(4);
      await bytesOf(instance, handle, 4);
      instance.free(handle);
      expect("open", "after some calls");
      const disposed = instance.dispose();
      expect("disposed", "when dispose was called");
      await settled(disposed, "dispose");
      expect("disposed", "after dispose");
    },
  ),

  law(topic, "capabilities are complete after init", async ({ backend }) => {
    const { device, dtypes, limits, numerics, accuracy, synchronousReads } = backend.capabilities;
    check(typeof synchronousReads === "boolean", `synchronousReads is ${String(synchronousReads)}`);
    check(["cpu", "gpu", "other"].includes(device.kind), `device.kind is ${device.kind}`);
    check(typeof device.name === "string" && device.name !== "", `device.name is ${String(device.name)}`);
    check(
      typeof device.software === "boolean",
      `device.software is ${String(device.software)}; allowed: true, false`,
    );
    check(
      typeof device.details === "object" && device.details !== null,
      `device.details is ${String(device.details)}; allowed: texts by name, such as {}`,
    );
    check(new Set(dtypes).size === dtypes.length, `an element type is listed twice: ${dtypes.join(", ")}`);
    check(
      limits.maxAllocationBytes >= 2 ** 20,
      `at most ${limits.maxAllocationBytes} bytes in one allocation`,
    );
    for (const flag of ["nan", "infinity", "subnormals", "signedZero", "rounding"] as const)
      check(typeof numerics[flag] === "string", `numerics.${flag} is not declared`);
    check(typeof numerics.deterministic === "boolean", "numerics.deterministic is not declared");
    const { transformedConvolutions = "never" } = numerics;
    check(
      transformedConvolutionNames.includes(transformedConvolutions),
      `numerics.transformedConvolutions is ${String(transformedConvolutions)}`,
    );
    if (accuracy !== undefined) checkAccuracy("capabilities", accuracy);
  }),

  law(topic, "after dispose every call is refused as DISPOSED", async ({ fresh }) => {
    const instance = await fresh();
    const handle = instance.alloc(64);
    const disposed = instance.dispose();
    await refusesEverything(instance, "DISPOSED", handle);
    await settled(disposed, "dispose");
    await refusesEverything(instance, "DISPOSED", handle);
    await rejects("DISPOSED", "init", () => instance.init());
    checkEmpty(instance);
    await settled(instance.dispose(), "dispose");
    await settled(Promise.resolve(instance[Symbol.asyncDispose]()), "Symbol.asyncDispose");
    checkListeners(instance);
    const used = await fresh();
    await settled(Promise.resolve(used[Symbol.asyncDispose]()), "Symbol.asyncDispose");
    refuses("DISPOSED", "alloc after Symbol.asyncDispose", () => used.alloc(4));
  }),

  law(topic, "dispose before init opens nothing", async ({ unopened }) => {
    const instance = await unopened();
    await settled(instance.dispose(), "dispose");
    await rejects("DISPOSED", "init", () => instance.init());
    refuses("DISPOSED", "alloc", () => instance.alloc(4));
    checkEmpty(instance);
  }),

  law(topic, "dispose during init closes what is opened", async ({ unopened }) => {
    const instance = await unopened();
    const opening = instance.init();
    const disposed = instance.dispose();
    await rejects("DISPOSED", "init", () => opening);
    await settled(disposed, "dispose");
    refuses("DISPOSED", "alloc", () => instance.alloc(4));
    checkEmpty(instance);
  }),

  law(topic, "dispose settles what is pending: with the right answer or as DISPOSED", async ({ fresh }) => {
    const instance = await fresh();
    const content = pattern(1 << 16, 1);
    const handles = [1, 2, 3, 4].map(() => instance.alloc(content.length, { zero: false }));
    for (const handle of handles) instance.copyHtoD(handle, content);
    const targets = handles.map(() => new Uint8Array(content.length));
    const pending = handles.map((handle, i) => instance.copyDtoH(targets[i]!, handle));
    pending.push(instance.synchronize());
    const outcomes = pending.map((promise) =>
      promise.then(
        () => "answered" as const,
        (error: unknown) => ({ error }),
      ),
    );
    await settled(instance.dispose(), "dispose");
    for (const [i, promise] of outcomes.entries()) {
      const what =
        i < targets.length ? `copyDtoH ${i}, pending at dispose` : "synchronize, pending at dispose";
      const outcome = await settled(promise, what);
      if (outcome !== "answered") await rejects("DISPOSED", what, () => Promise.reject(outcome.error));
      else if (i < targets.length) sameBytes(targets[i]!, content, what);
    }
  }),

  law(topic, "two backends side by side know nothing of each other", async ({ fresh }) => {
    const [one, two] = [await fresh(), await fresh()];
    const foreign = one.alloc(16);
    const own = two.alloc(16);
    one.fill(foreign, 1, 16, "u8");
    two.fill(own, 2, 16, "u8");
    refuses("INVALID_HANDLE", "free of another backend's handle", () => two.free(foreign));
    refuses("INVALID_HANDLE", "fill of another backend's memory", () => two.fill(foreign, 3, 4));
    refuses("INVALID_HANDLE", "copyDtoD from another backend", () => two.copyDtoD(own, foreign, 4));
    refuses("INVALID_HANDLE", "copyDtoD to another backend", () => two.copyDtoD(foreign, own, 4));
    check(two.memory().liveBytes === 16, `one of two backends counts ${two.memory().liveBytes} live bytes`);
    sameBytes(await bytesOf(one, foreign, 16), new Uint8Array(16).fill(1), "the first backend's memory");
    await settled(one.dispose(), "dispose");
    sameBytes(await bytesOf(two, own, 16), new Uint8Array(16).fill(2), "the second backend's memory");
    two.free(own);
  }),
];
