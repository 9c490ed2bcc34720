import { type ComputeBackend, type DeviceHandle, dtypeBytes } from "@backplane/core";
import fc from "fast-check";
import { encoded } from "../elements.js";
import { bytesOf, check, law, PendingChecks, pattern, refuses, rejects, sameBytes } from "../kit/checks.js";
import { type Law, LawFailure } from "../law.js";
import { settled } from "../patience.js";

/** The expected bytes of the backend. */
interface Model {
  readonly live: { readonly handle: DeviceHandle; readonly bytes: Uint8Array<ArrayBuffer> }[];
  readonly stale: DeviceHandle[];
  /** Pending reads; each checks its result when it arrives. */
  readonly reads: PendingChecks;
  peakBytes: number;
}

type Step = fc.AsyncCommand<Model, ComputeBackend>;

/** A step that needs `needs` live allocations; printed as its name and choices. */
function step(
  shown: string,
  needs: number,
  run: (model: Model, backend: ComputeBackend) => void | Promise<void>,
): Step {
  return {
    check: (model) => model.live.length >= needs,
    run: async (model, backend) => run(model, backend),
    toString: () => shown,
  };
}

/** A place within `available` from three choices that shrink to 0. */
function range(available: number, start: number, length: number): [byteOffset: number, bytes: number] {
  const byteOffset = start % (available + 1);
  return [byteOffset, Math.min(length, available - byteOffset)];
}

function pick(model: Model, choice: number) {
  return model.live[choice % model.live.length]!;
}

/** Whole numbers that all operations here keep exact; each a normal f32. */
function wholeNumbers(count: number, seed: number): Float32Array<ArrayBuffer> {
  return Float32Array.from({ length: count }, (_, i) => 1 + ((seed + i * 5) % 97));
}

const choice = fc.nat(1000);
const start = fc.nat(40);
const length = fc.oneof(fc.nat(20), fc.nat(300));

const steps: readonly fc.Arbitrary<Step>[] = [
  fc.tuple(fc.nat(400), fc.boolean()).map(([size, zero]) =>
    step(`alloc(${size}, zero: ${zero})`, 0, (model, backend) => {
      const handle = backend.alloc(size, { zero });
      check(!model.stale.includes(handle), `alloc gave handle ${handle} again`);
      const bytes = zero ? new Uint8Array(size) : pattern(size, size);
      if (!zero) backend.copyHtoD(handle, bytes);
      model.live.push({ handle, bytes: bytes.slice() });
      const liveBytes = model.live.reduce((sum, entry) => sum + entry.bytes.length, 0);
      model.peakBytes = Math.max(model.peakBytes, liveBytes);
    }),
  ),
  fc.tuple(choice).map(([which]) =>
    step(`free(${which})`, 1, (model, backend) => {
      const [freed] = model.live.splice(which % model.live.length, 1);
      backend.free(freed!.handle);
      model.stale.push(freed!.handle);
    }),
  ),
  fc.tuple(choice, start, length, fc.nat(255)).map(([which, from, size, seed]) =>
    step(`write(${which}, ${from}, ${size}, ${seed})`, 1, (model, backend) => {
      const { handle, bytes } = pick(model, which);
      const [byteOffset, count] = range(bytes.length, from, size);
      const source = pattern(count, seed);
      backend.copyHtoD({ handle, byteOffset }, source);
      bytes.set(source, byteOffset);
      source.fill(0x99);
    }),
  ),
  fc.tuple(choice, choice, start, start, length).map(([to, from, toStart, fromStart, size]) =>
    step(`copy(${to}, ${from}, ${toStart}, ${fromStart}, ${size})`, 1, (model, backend) => {
      const [target, source] = [pick(model, to), pick(model, from)];
      const [toOffset, room] = range(target.bytes.length, toStart, size);
      const [fromOffset, count] = range(source.bytes.length, fromStart, room);
      const places = [
        { handle: target.handle, byteOffset: toOffset },
        { handle: source.handle, byteOffset: fromOffset },
      ] as const;
      const overlap = target === source && count > 0 && Math.abs(toOffset - fromOffset) < count;
      if (overlap) {
        refuses("INVALID_ARGUMENT", "copyDtoD onto itself", () => backend.copyDtoD(...places, count));
        return;
      }
      backend.copyDtoD(...places, count);
      target.bytes.set(source.bytes.slice(fromOffset, fromOffset + count), toOffset);
    }),
  ),
  fc
    .tuple(choice, start, length, fc.nat(255), fc.constantFrom("u8" as const, "f16" as const, "f32" as const))
    .map(([which, from, size, value, dtype]) =>
      step(`fill(${which}, ${from}, ${size}, ${value}, ${dtype})`, 1, (model, backend) => {
        const { handle, bytes } = pick(model, which);
        const elementBytes = dtypeBytes[dtype];
        const [first, count] = range(Math.floor(bytes.length / elementBytes), from, size);
        const byteOffset = first * elementBytes;
        backend.fill({ handle, byteOffset }, value, count, dtype);
        bytes.set(encoded(new Array<number>(count).fill(value), dtype), byteOffset);
      }),
    ),
  fc
    .tuple(choice, choice, start, start, fc.nat(60), fc.nat(96))
    .map(([to, from, toStart, fromStart, size, seed]) =>
      step(`negate(${to}, ${from}, ${toStart}, ${fromStart}, ${size}, ${seed})`, 1, (model, backend) => {
        elementwise(model, backend, [to, from], [toStart, fromStart], size, seed, "neg");
      }),
    ),
  fc
    .tuple(choice, choice, start, start, fc.nat(60), fc.nat(96))
    .map(([to, from, toStart, fromStart, size, seed]) =>
      step(`double(${to}, ${from}, ${toStart}, ${fromStart}, ${size}, ${seed})`, 1, (model, backend) => {
        elementwise(model, backend, [to, from], [toStart, fromStart], size, seed, "double");
      }),
    ),
  fc.tuple(choice, start, length).map(([which, from, size]) =>
    step(`read(${which}, ${from}, ${size})`, 1, (model, backend) => {
      const { handle, bytes } = pick(model, which);
      const [byteOffset, count] = range(bytes.length, from, size);
      const expected = bytes.slice(byteOffset, byteOffset + count);
      const read = bytesOf(backend, { handle, byteOffset }, count);
      const what = `read of ${count} bytes at ${byteOffset}`;
      model.reads.add(read.then((got) => sameBytes(got, expected, what)));
    }),
  ),
  fc.tuple(choice, start, length).map(([which, from, size]) =>
    step(`read at once(${which}, ${from}, ${size})`, 1, (model, backend) => {
      if (!backend.capabilities.synchronousReads) return;
      const { handle, bytes } = pick(model, which);
      const [byteOffset, count] = range(bytes.length, from, size);
      const got = new Uint8Array(count);
      backend.copyDtoHSync(got, { handle, byteOffset });
      sameBytes(
        got,
        bytes.slice(byteOffset, byteOffset + count),
        `${count} bytes at ${byteOffset}, read at once`,
      );
    }),
  ),
  fc
    .constantFrom("flush" as const, "trim" as const)
    .map((name) => step(`${name}()`, 0, (_model, backend) => backend[name]())),
  fc.constant(
    step("synchronize()", 0, async (model, backend) => {
      await settled(backend.synchronize(), "synchronize");
      await model.reads.all();
    }),
  ),
  fc.tuple(choice).map(([which]) => {
    const stale = step(`use after free(${which})`, 0, async (model, backend) => {
      const handle = model.stale[which % model.stale.length]!;
      refuses("INVALID_HANDLE", "a second free", () => backend.free(handle));
      refuses("INVALID_HANDLE", "fill after free", () => backend.fill(handle, 0, 0));
      refuses("INVALID_HANDLE", "copyHtoD after free", () => backend.copyHtoD(handle, new Uint8Array(0)));
      await rejects("INVALID_HANDLE", "copyDtoH after free", () =>
        backend.copyDtoH(new Uint8Array(0), handle),
      );
    });
    return { ...stale, check: (model: Model) => model.stale.length > 0 };
  }),
  fc.tuple(choice, fc.nat(3)).map(([which, past]) =>
    step(`past the end(${which}, ${past})`, 1, (model, backend) => {
      const { handle, bytes } = pick(model, which);
      const byteOffset = bytes.length - Math.min(past, bytes.length);
      refuses("OUT_OF_BOUNDS", "copyHtoD past the end", () =>
        backend.copyHtoD({ handle, byteOffset }, new Uint8Array(past + 1)),
      );
      refuses("OUT_OF_BOUNDS", "fill past the end", () =>
        backend.fill({ handle, byteOffset }, 1, past + 1, "u8"),
      );
    }),
  ),
  fc.constant(
    step("memory()", 0, (model, backend) => {
      const { liveAllocations, liveBytes, peakBytes } = backend.memory();
      const bytes = model.live.reduce((sum, entry) => sum + entry.bytes.length, 0);
      const got = JSON.stringify({ liveAllocations, liveBytes, peakBytes });
      const expected = JSON.stringify({
        liveAllocations: model.live.length,
        liveBytes: bytes,
        peakBytes: model.peakBytes,
      });
      check(got === expected, `memory() is ${got}, expected ${expected}`);
    }),
  ),
];

/** Writes whole numbers to one place and computes from there to another that does not overlap it. */
function elementwise(
  model: Model,
  backend: ComputeBackend,
  [to, from]: readonly [number, number],
  [toStart, fromStart]: readonly [number, number],
  size: number,
  seed: number,
  what: "neg" | "double",
): void {
  const [target, source] = [pick(model, to), pick(model, from)];
  const [toElement, room] = range(Math.floor(target.bytes.length / 4), toStart, size);
  const [fromElement, n] = range(Math.floor(source.bytes.length / 4), fromStart, room);
  const values = wholeNumbers(n, seed);
  const input = { handle: source.handle, byteOffset: 4 * fromElement };
  const output = { handle: target.handle, byteOffset: 4 * toElement };
  backend.copyHtoD(input, values);
  source.bytes.set(new Uint8Array(values.buffer), input.byteOffset);
  const distance = Math.abs(fromElement - toElement);
  const compute = () =>
    what === "neg"
      ? backend.unary({ kind: "neg", n, input, output })
      : backend.binary({ kind: "add", n, a: input, b: input, output });
  if (
    what === "neg"
      ? !backend.supports("unary", { kind: "neg" })
      : !backend.supports("binary", { kind: "add" })
  )
    return;
  if (target === source && distance > 0 && distance < n) {
    refuses("INVALID_ARGUMENT", `${what} with partial overlap`, compute);
    return;
  }
  compute();
  const results = values.map((value) => (what === "neg" ? -value : 2 * value));
  target.bytes.set(new Uint8Array(results.buffer), output.byteOffset);
}

export const statefulLaws: readonly Law[] = [
  law("stateful", "any sequence of calls does what the same calls on plain bytes do", async (context) => {
    const { forAll, fresh, replayPath } = context;
    const sequences = fc.commands([...steps], {
      maxCommands: 60,
      size: "+1",
      ...(replayPath === undefined ? {} : { replayPath }),
    });
    const backend = await fresh();
    let peakBytes = 0;
    const run = async (commands: Iterable<Step>): Promise<void> => {
      const model: Model = { live: [], stale: [], reads: new PendingChecks(), peakBytes };
      try {
        await fc.asyncModelRun(() => ({ model, real: backend }), commands);
        await settled(backend.synchronize(), "synchronize");
        await model.reads.all();
        for (const { handle, bytes } of model.live)
          sameBytes(await bytesOf(backend, handle, bytes.length), bytes, "an allocation at the end");
      } finally {
        await model.reads.all().catch(() => {});
        for (const { handle } of model.live) backend.free(handle);
        ({ peakBytes } = backend.memory());
      }
    };
    try {
      await forAll(sequences, run, { runs: 3, show: String });
    } catch (error) {
      throw withReplayPath(error);
    }
  }),
];

/** Commands are replayed by a path of their own, which fast-check shows only in their text. */
export function withReplayPath(error: unknown): unknown {
  if (!(error instanceof LawFailure)) return error;
  const [, replayPath] = /replayPath="([^"]*)"/.exec(error.shown ?? "") ?? [];
  if (replayPath === undefined) return error;
  const replay = { ...error.replay, replayPath };
  return new LawFailure(replay, error.cause, error.shown);
}
