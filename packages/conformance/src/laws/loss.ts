import type { ComputeBackend, DeviceHandle } from "@backplane/core";
import { bytesOf, check, pattern, refuses, rejects, sameBytes } from "../kit/checks.js";
import type { Law } from "../law.js";
import { settled } from "../patience.js";
import { checkEmpty, refusesEverything } from "./lifecycle.js";
import { lossLaw as law, lose, type Outcome, outcomeOf, pause } from "./loss-support.js";
import { lossSwappingLaws } from "./loss-swapping.js";
import { checkArithmetic } from "./swapping.js";

/** A promise that was pending when the device was lost, and its correct result. */
interface Pending {
  readonly what: string;
  readonly outcome: Promise<Outcome<void>>;
  readonly target: Uint8Array<ArrayBuffer>;
  readonly truth: Uint8Array<ArrayBuffer>;
}

interface Load {
  readonly bytes: number;
  readonly rounds: number;
}

/** Enqueues work of several kinds, with a read in each round; leaves two allocations live. */
function enqueue(backend: ComputeBackend, { bytes, rounds }: Load): Pending[] {
  const pending: Pending[] = [];
  const watch = (what: string, promise: Promise<void>, target = new Uint8Array(0), truth = target): void => {
    pending.push({ what, outcome: outcomeOf(promise), target, truth });
  };
  const [from, to] = [backend.alloc(bytes, { zero: false }), backend.alloc(bytes)];
  const n = Math.min(64, Math.floor(Math.sqrt(bytes / 4)));
  const factors = backend.supports("gemm") ? [0, 1, 2].map(() => backend.alloc(n * n * 4)) : [];
  for (let round = 0; round < rounds; round++) {
    const truth = pattern(bytes, round);
    backend.copyHtoD(from, truth);
    const [a, b, c] = factors;
    if (c !== undefined) {
      backend.fill(a!, round, n * n);
      backend.gemm({ m: n, n, k: n, a: a!, b: b!, c });
    }
    backend.copyDtoD(to, from, bytes);
    const target = new Uint8Array(bytes);
    watch(`the read of round ${round}, pending at the loss`, backend.copyDtoH(target, to), target, truth);
  }
  for (const factor of factors) backend.free(factor);
  watch("synchronize, pending at the loss", backend.synchronize());
  return pending;
}

/** Pending promises settle soon: with the truth, or as `DEVICE_LOST`. */
async function checkPending(pending: readonly Pending[]): Promise<void> {
  for (const { what, outcome, target, truth } of pending) {
    const end = await settled(outcome, what);
    if ("error" in end) await rejects("DEVICE_LOST", what, () => Promise.reject(end.error));
    else sameBytes(target, truth, `${what}, which was answered`);
  }
}

async function checkAlive(backend: ComputeBackend, when: string): Promise<void> {
  const handle = backend.alloc(1000);
  const image = pattern(1000, 3);
  sameBytes(await bytesOf(backend, handle, 1000), new Uint8Array(1000), `fresh memory ${when}`);
  backend.copyHtoD(handle, image);
  backend.fill({ handle, byteOffset: 8 }, 1.5, 2);
  new DataView(image.buffer).setFloat32(8, 1.5, true);
  new DataView(image.buffer).setFloat32(12, 1.5, true);
  sameBytes(await bytesOf(backend, handle, 1000), image, `bytes written ${when}`);
  backend.free(handle);
  await checkArithmetic(backend, when);
  await settled(backend.synchronize(), "synchronize");
}

export const lossLaws: readonly Law[] = [
  law("what is pending when the device is lost is answered truly or rejected as DEVICE_LOST", (context) => {
    const cases: readonly (Load & { readonly wait: number })[] = [
      { bytes: 4, rounds: 1, wait: 0 },
      { bytes: 1 << 16, rounds: 30, wait: 0 },
      { bytes: 1 << 16, rounds: 30, wait: 1 },
      { bytes: 1 << 20, rounds: 8, wait: 5 },
      { bytes: 256, rounds: 400, wait: 1 },
    ];
    const tryOne = async (load: Load & { readonly wait: number }) => {
      const backend = await context.fresh();
      const pending = enqueue(backend, load);
      if (load.wait > 0) await pause(load.wait);
      await lose(context, backend);
      await checkPending(pending);
      refuses("DEVICE_LOST", "alloc", () => backend.alloc(4));
      await settled(backend.dispose(), "dispose");
    };
    return context.forEach(cases, tryOne, { quick: 3 });
  }),

  law("after a loss every call is refused as DEVICE_LOST, and questions are answered", async (context) => {
    const backend = await context.fresh();
    const handle = backend.alloc(64);
    const { device } = backend.capabilities;
    const had = backend.supports("unary");
    await lose(context, backend);
    await refusesEverything(backend, "DEVICE_LOST", handle);
    // The state comes first, even if the call has other errors.
    await refusesEverything(backend, "DEVICE_LOST", 1 as DeviceHandle);
    refuses("DEVICE_LOST", "alloc", () => backend.alloc(-1));
    refuses("DEVICE_LOST", "fill", () => backend.fill(handle, 256, -1, "u8"));
    check(backend.capabilities.device.name === device.name, "capabilities changed with the loss");
    check(backend.supports("unary") === had, "supports() changed with the loss");
    checkEmpty(backend);
    check(backend.memory().peakBytes >= 64, `peakBytes fell to ${backend.memory().peakBytes} with the loss`);
  }),

  law("listeners hear of a loss once; late ones at once, and those that left not at all", async (context) => {
    const backend = await context.fresh();
    const heard: string[] = [];
    const listen = (name: string) => backend.onLost(({ code }) => heard.push(`${name} ${code}`));
    listen("first");
    listen("second");
    listen("left")();
    await lose(context, backend);
    listen("late");
    await pause(20);
    const expected = ["first DEVICE_LOST", "second DEVICE_LOST", "late DEVICE_LOST"];
    check(heard.join() === expected.join(), `heard were ${heard.join(", ") || "none"}`);
  }),

  law("dispose after a loss ends everything, and leaves nothing", async (context) => {
    for (const whenTold of [true, false]) {
      const backend = await context.fresh();
      const pending = enqueue(backend, { bytes: 4096, rounds: 20 });
      if (whenTold) await lose(context, backend);
      else await settled(context.loseDevice(backend), "loseDevice");
      const disposed = backend.dispose();
      disposed.catch(() => {});
      await refusesEverything(backend, "DISPOSED", 1 as DeviceHandle);
      await settled(disposed, "dispose after a loss");
      for (const { what, outcome } of pending) await settled(outcome, what);
      await rejects("DISPOSED", "init", () => backend.init());
      checkEmpty(backend);
      await settled(backend.dispose(), "dispose");
    }
  }),

  law("init after a loss opens a fresh device on which everything works", async (context) => {
    const backend = await context.fresh();
    const { reservedBytes } = backend.memory();
    const sizes = [4, 1000, 1000, 1 << 20];
    for (const [i, size] of sizes.entries()) backend.fill(backend.alloc(size), i + 1, size, "u8");
    await settled(backend.synchronize(), "synchronize");
    const { peakBytes } = backend.memory();
    await lose(context, backend);
    const [opening, again] = [backend.init(), backend.init()];
    for (const promise of [opening, again]) promise.catch(() => {});
    check(again === opening, "a second init() while the first is under way gives another promise");
    refuses("DEVICE_LOST", "alloc while a fresh device is opened", () => backend.alloc(4));
    await settled(opening, "init after a loss");
    check(backend.state === "open", `state is ${backend.state} on a fresh device`);
    check(backend.init() === opening, "init() after it has resolved gives another promise");
    const { liveAllocations, liveBytes, peakBytes: peak, reservedBytes: reserved } = backend.memory();
    check(liveAllocations + liveBytes === 0, `${liveAllocations} allocations are live on a fresh device`);
    // Add less than was live before: a first device may have found memory that the next one must reserve.
    check(
      reserved < reservedBytes + (1 << 20),
      `reservedBytes was ${reservedBytes} on the first device, and is ${reserved} on a fresh one`,
    );
    check(peak === peakBytes, `peakBytes went from ${peakBytes} to ${peak}`);
    const fresh = sizes.map((size) => backend.alloc(size));
    for (const [i, size] of sizes.entries())
      sameBytes(await bytesOf(backend, fresh[i]!, size), new Uint8Array(size), `${size} fresh bytes`);
    for (const handle of fresh) backend.free(handle);
    await checkAlive(backend, "on a fresh device");
    await settled(backend.dispose(), "dispose");
    checkEmpty(backend);
  }),

  law("handles from before a loss reach nothing on the fresh device", async (context) => {
    const backend = await context.fresh();
    const old = [4, 64, 0].map((size) => backend.alloc(size));
    await lose(context, backend);
    await settled(backend.init(), "init after a loss");
    const fresh = [4, 64, 0].map((size) => backend.alloc(size));
    check(!fresh.some((handle) => old.includes(handle)), "the number of a handle was issued again");
    const [, live] = fresh as [DeviceHandle, DeviceHandle, DeviceHandle];
    for (const handle of old) {
      refuses("INVALID_HANDLE", "free", () => backend.free(handle));
      refuses("INVALID_HANDLE", "native", () => backend.native(handle));
      refuses("INVALID_HANDLE", "copyHtoD", () => backend.copyHtoD(handle, new Uint8Array(0)));
      refuses("INVALID_HANDLE", "copyDtoD", () => backend.copyDtoD(live, handle, 0));
      refuses("INVALID_HANDLE", "fill", () => backend.fill(handle, 7, 0, "u8"));
      await rejects("INVALID_HANDLE", "copyDtoH", () => backend.copyDtoH(new Uint8Array(0), handle));
      if (backend.supports("unary", { kind: "neg" }))
        refuses("INVALID_HANDLE", "unary", () =>
          backend.unary({ kind: "neg", n: 1, input: handle, output: live }),
        );
    }
    sameBytes(await bytesOf(backend, live, 64), new Uint8Array(64), "memory of a live handle");
    check(backend.memory().liveAllocations === 3, "stale handles changed the statistics");
    for (const handle of fresh) backend.free(handle);
  }),

  law("every loss is told and can be overcome, also by init from within a listener", async (context) => {
    const backend = await context.fresh();
    let heard = 0;
    let opening: Promise<void> | undefined;
    backend.onLost(() => {
      heard++;
      opening = backend.init();
      opening.catch(() => {});
    });
    for (let loss = 1; loss <= 3; loss++) {
      const pending = enqueue(backend, { bytes: 4096, rounds: 10 });
      await lose(context, backend);
      check(heard === loss, `of ${loss} losses ${heard} were told`);
      check(opening !== undefined, "init() gave no promise");
      await settled(opening, "init after a loss");
      await checkPending(pending);
      await checkAlive(backend, `after ${loss} losses`);
    }
  }),

  law("nothing that a lost device leaves behind reaches the fresh one", async (context) => {
    const backend = await context.fresh();
    // More than the fresh device gets to do before the old one has been given up.
    const pending = enqueue(backend, { bytes: 1 << 16, rounds: 30 });
    await lose(context, backend);
    await settled(backend.init(), "init after a loss");
    const late: string[] = [];
    backend.onLost(({ message }) => late.push(message));
    backend.onError(({ message }) => late.push(message));
    await settled(backend.synchronize(), "synchronize on a fresh device");
    const handle = backend.alloc(1 << 16);
    await checkPending(pending);
    await pause(50);
    sameBytes(await bytesOf(backend, handle, 1 << 16), new Uint8Array(1 << 16), "memory of the fresh device");
    await settled(backend.synchronize(), "synchronize on a fresh device");
    check(late.length === 0, `on a fresh device was heard: ${late.join("; ")}`);
    backend.free(handle);
  }),

  law("dispose while a fresh device is opened closes it", async (context) => {
    const backend = await context.fresh();
    await lose(context, backend);
    const opening = backend.init();
    const disposed = backend.dispose();
    disposed.catch(() => {});
    await rejects("DISPOSED", "init", () => opening);
    await settled(disposed, "dispose");
    refuses("DISPOSED", "alloc", () => backend.alloc(4));
    checkEmpty(backend);
  }),

  law("a loss is that of one backend only", async (context) => {
    const [one, two] = [await context.fresh(), await context.fresh()];
    const handle = two.alloc(64);
    const image = pattern(64, 5);
    two.copyHtoD(handle, image);
    let isTold = false;
    two.onLost(() => {
      isTold = true;
    });
    await lose(context, one);
    await pause(20);
    check(!isTold, "a backend was told that it was lost when another one was");
    sameBytes(await bytesOf(two, handle, 64), image, "memory of the other backend");
    await settled(one.init(), "init after a loss");
    await checkAlive(one, "on a fresh device");
    await checkAlive(two, "beside a backend that was lost");
    sameBytes(await bytesOf(two, handle, 64), image, "memory of the other backend");
    two.free(handle);
  }),
  ...lossSwappingLaws,
];
