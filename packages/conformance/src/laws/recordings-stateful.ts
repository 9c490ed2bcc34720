import { type ComputeBackend, type DeviceHandle, type Recording, SwitchableBackend } from "@backplane/core";
import fc from "fast-check";
import { bytesOf, PendingChecks, pattern, refuses, sameBytes } from "../kit/checks.js";
import type { Law, LawContext } from "../law.js";
import { settled } from "../patience.js";
import { recordingLaw as law, openSwitchable } from "./recordings-support.js";
import { withReplayPath } from "./stateful.js";

/** One call of a recording, with the handles that were live when it was recorded. */
interface Instruction {
  readonly kind: "copy" | "fill" | "add";
  readonly to: DeviceHandle;
  readonly from: DeviceHandle;
  readonly toByte: number;
  readonly fromByte: number;
  readonly bytes: number;
  readonly value: number;
  /** The value of the run is added to `value`, and shortens the call. */
  readonly varies: boolean;
}

interface Recorded {
  readonly step: Recording<{ readonly shift: number }>;
  readonly program: readonly Instruction[];
}

interface Model {
  readonly live: Map<DeviceHandle, Uint8Array<ArrayBuffer>>;
  readonly recordings: Recorded[];
  readonly reads: PendingChecks;
  /** Whether the backend adds integers. */
  readonly adds: boolean;
  /** A swap under way. */
  swap: Promise<unknown>;
  swapsLeft: number;
}

type Step = fc.AsyncCommand<Model, ComputeBackend>;

function step(
  shown: string,
  check: (model: Model) => boolean,
  run: (model: Model, backend: ComputeBackend) => void | Promise<void>,
): Step {
  return { check, run: async (model, backend) => run(model, backend), toString: () => shown };
}

const hasLive = (model: Model): boolean => model.live.size > 0;
const hasRecordings = (model: Model): boolean => model.recordings.length > 0;

function pick<Entry>(entries: Iterable<Entry>, choice: number): Entry {
  const list = [...entries];
  return list[choice % list.length]!;
}

type Rebound = ReadonlyMap<DeviceHandle, { readonly handle: DeviceHandle; readonly byteOffset: number }>;
const asRecorded: Rebound = new Map();

/** The places that an instruction touches in a run. */
function placesOf(
  { kind, to, from, toByte, fromByte, bytes, varies }: Instruction,
  shift: number,
  rebound: Rebound,
) {
  const at = (handle: DeviceHandle, byteOffset: number) => {
    const other = rebound.get(handle);
    return { handle: other?.handle ?? handle, byteOffset: byteOffset + (other?.byteOffset ?? 0) };
  };
  const length = varies ? Math.max(0, bytes - 4 * shift) : bytes;
  return { kind, to: at(to, toByte), from: at(from, fromByte), length };
}

/** Whether a backend refuses the instruction because its operands overlap. */
function overlaps(instruction: Instruction, shift: number, rebound: Rebound): boolean {
  const { kind, to, from, length } = placesOf(instruction, shift, rebound);
  if (kind === "fill" || to.handle !== from.handle || length === 0) return false;
  const distance = Math.abs(to.byteOffset - from.byteOffset);
  return distance < length && (kind === "copy" || distance > 0);
}

function onModel(model: Model, program: readonly Instruction[], shift: number, rebound: Rebound): void {
  for (const instruction of program) {
    const { kind, to, from, length } = placesOf(instruction, shift, rebound);
    const value = instruction.value + (instruction.varies ? shift : 0);
    const target = model.live.get(to.handle)!;
    if (kind === "fill") {
      target.fill(value, to.byteOffset, to.byteOffset + length);
      continue;
    }
    const source = model.live.get(from.handle)!.slice(from.byteOffset, from.byteOffset + length);
    if (kind === "add") {
      const integers = new Int32Array(source.buffer);
      for (const [i, integer] of integers.entries()) integers[i] = integer + value;
    }
    target.set(source, to.byteOffset);
  }
}

function onBackend(backend: ComputeBackend, instruction: Instruction, shift: number): void {
  const { kind, to, from, length } = placesOf(instruction, shift, asRecorded);
  const value = instruction.value + (instruction.varies ? shift : 0);
  if (kind === "fill") backend.fill(to, value, length, "u8");
  else if (kind === "copy") backend.copyDtoD(to, from, length);
  else
    backend.binary({
      ...{ kind: "add", dtype: "i32", n: length / 4, a: from, b: { scalar: value }, output: to },
    });
}

const choice = fc.nat(1000);
const start = fc.nat(12);
const draftOfCall = fc.record({
  kind: fc.constantFrom("copy" as const, "fill" as const, "add" as const),
  to: choice,
  from: choice,
  toStart: start,
  fromStart: start,
  length: fc.nat(30),
  value: fc.nat(200),
  varies: fc.boolean(),
});
type Draft = typeof draftOfCall extends fc.Arbitrary<infer Value> ? Value : never;

function instructionOf(model: Model, draft: Draft): Instruction | undefined {
  const { kind, value, varies } = draft;
  const unit = kind === "add" ? 4 : 1;
  const to = pick(model.live.keys(), draft.to);
  const from = kind === "fill" ? to : pick(model.live.keys(), draft.from);
  const units = (handle: DeviceHandle) => Math.floor(model.live.get(handle)!.length / unit);
  const first = (handle: DeviceHandle, wanted: number) => wanted % (units(handle) + 1);
  const [toFirst, fromFirst] = [first(to, draft.toStart), first(from, draft.fromStart)];
  const count = Math.min(draft.length, units(to) - toFirst, units(from) - fromFirst);
  const instruction = {
    ...{
      kind,
      to,
      from,
      value,
      varies,
      toByte: unit * toFirst,
      fromByte: unit * fromFirst,
      bytes: unit * count,
    },
  };
  if (kind === "add" && !model.adds) return undefined;
  return overlaps(instruction, 0, asRecorded) ? undefined : instruction;
}

const steps: readonly fc.Arbitrary<Step>[] = [
  fc.nat(80).map((size) =>
    step(
      `alloc(${size})`,
      () => true,
      (model, backend) => {
        const bytes = pattern(size, size);
        const handle = backend.alloc(size);
        backend.copyHtoD(handle, bytes);
        model.live.set(handle, bytes);
      },
    ),
  ),
  choice.map((which) =>
    step(`free(${which})`, hasLive, (model, backend) => {
      const handle = pick(model.live.keys(), which);
      model.live.delete(handle);
      backend.free(handle);
    }),
  ),
  fc.tuple(choice, fc.nat(255)).map(([which, seed]) =>
    step(`write(${which}, ${seed})`, hasLive, (model, backend) => {
      const [handle, bytes] = pick(model.live, which);
      bytes.set(pattern(bytes.length, seed));
      backend.copyHtoD(handle, bytes);
    }),
  ),
  fc.array(draftOfCall, { minLength: 1, maxLength: 8 }).map((drafts) =>
    step(`record(${JSON.stringify(drafts)})`, hasLive, (model, backend) => {
      const program = drafts.flatMap((draft) => instructionOf(model, draft) ?? []);
      const step = backend.record(
        (vary: (part: (values: { readonly shift: number }) => void) => void) => {
          for (const instruction of program)
            if (instruction.varies) vary(({ shift }) => onBackend(backend, instruction, shift));
            else onBackend(backend, instruction, 0);
        },
        { shift: 0 },
      );
      model.recordings.push({ step, program });
    }),
  ),
  fc.tuple(choice, fc.nat(3)).map(([which, shift]) =>
    step(`run(${which}, ${shift})`, hasRecordings, (model) => {
      carryOut(model, pick(model.recordings, which), shift, asRecorded);
    }),
  ),
  fc
    .tuple(choice, fc.nat(2), choice, choice, fc.constantFrom(0, 4, 7))
    .map(([which, shift, replaced, by, byteOffset]) =>
      step(
        `run(${which}, ${shift}, ${replaced} by ${by} from ${byteOffset})`,
        (model) => hasRecordings(model) && hasLive(model),
        (model) => {
          const recorded = pick(model.recordings, which);
          const handles = new Set(
            recorded.program.flatMap(({ kind, to, from }) => (kind === "fill" ? [to] : [to, from])),
          );
          if (handles.size === 0) return;
          const handle = pick(handles, replaced);
          const bytes = model.live.get(handle)?.length ?? 0;
          const others = [...model.live].filter(([, other]) => other.length >= bytes + byteOffset);
          if (others.length === 0) return;
          const [other] = pick(others, by);
          // Operands of integers begin at whole words.
          const offset =
            byteOffset === 7 && recorded.program.some(({ kind }) => kind === "add") ? 0 : byteOffset;
          carryOut(model, recorded, shift, new Map([[handle, { handle: other, byteOffset: offset }]]));
        },
      ),
    ),
  choice.map((which) =>
    step(`dispose(${which})`, hasRecordings, (model) => {
      const [recorded] = model.recordings.splice(which % model.recordings.length, 1);
      recorded!.step.dispose();
      refuses("DISPOSED", "a run after dispose", () => recorded!.step.run());
    }),
  ),
  choice.map((which) =>
    step(`read(${which})`, hasLive, (model, backend) => {
      const [handle, bytes] = pick(model.live, which);
      const expected = bytes.slice();
      model.reads.add(
        bytesOf(backend, handle, bytes.length).then((got) => sameBytes(got, expected, "a read")),
      );
    }),
  ),
  fc.constant(
    step(
      "synchronize()",
      () => true,
      async (model, backend) => {
        await settled(backend.synchronize(), "synchronize");
        await model.reads.all();
      },
    ),
  ),
  fc.tuple(fc.boolean(), fc.boolean()).map(([back, waits]) =>
    step(
      `use(${back ? "subject" : "reference"})${waits ? "" : " without waiting"}`,
      (model) => model.swapsLeft > 0,
      async (model, backend) => {
        if (!(backend instanceof SwitchableBackend)) return;
        await settled(model.swap, "use");
        model.swapsLeft--;
        model.swap = backend.use(back ? "subject" : "reference");
        if (waits) await settled(model.swap, "use");
      },
    ),
  ),
];

/** Runs a recording, or sees it refused if its operands do not live or overlap. */
function carryOut(model: Model, { step, program }: Recorded, shift: number, rebound: Rebound): void {
  const isDead = program.some(
    ({ kind, to, from }) => !model.live.has(to) || (kind !== "fill" && !model.live.has(from)),
  );
  const run = () =>
    step.run({
      ...(shift === 0 ? {} : { values: { shift } }),
      ...(rebound.size === 0 ? {} : { operands: rebound }),
    });
  // Other operands may be refused for reasons of their own.
  if (isDead && rebound.size > 0) return;
  if (isDead) refuses("INVALID_HANDLE", "a run of what was freed", run);
  else if (program.some((instruction) => overlaps(instruction, shift, rebound)))
    refuses("INVALID_ARGUMENT", "a run with operands that overlap", run);
  else {
    run();
    onModel(model, program, shift, rebound);
  }
}

async function tryCommands(context: LawContext, backend: ComputeBackend, swaps: number): Promise<void> {
  const { forAll, replayPath } = context;
  const sequences = fc.commands([...steps], {
    maxCommands: 50,
    size: "+1",
    ...(replayPath === undefined ? {} : { replayPath }),
  });
  const adds = backend.supports("binary", { kind: "add", dtype: "i32" });
  let swapsLeft = swaps;
  const run = async (commands: Iterable<Step>): Promise<void> => {
    const model: Model = {
      ...{ live: new Map(), recordings: [], reads: new PendingChecks() },
      ...{ adds, swap: Promise.resolve(), swapsLeft },
    };
    try {
      await fc.asyncModelRun(() => ({ model, real: backend }), commands);
      await settled(model.swap, "use");
      await settled(backend.synchronize(), "synchronize");
      await model.reads.all();
      for (const [handle, bytes] of model.live)
        sameBytes(await bytesOf(backend, handle, bytes.length), bytes, "an allocation at the end");
    } finally {
      ({ swapsLeft } = model);
      await model.reads.all().catch(() => {});
      for (const { step } of model.recordings) step.dispose();
      for (const handle of model.live.keys()) backend.free(handle);
    }
  };
  try {
    await forAll(sequences, run, { runs: 4, show: String });
  } catch (error) {
    throw withReplayPath(error);
  }
}

export const statefulRecordingLaws: readonly Law[] = [
  law("random programs, recorded, do what the same calls do one by one", async (context) =>
    tryCommands(context, await context.fresh(), 0),
  ),
  law("random programs, recorded, do the same across swaps", async (context) => {
    const swaps = 6;
    const backend = await openSwitchable(context, swaps + 1);
    try {
      await tryCommands(context, backend, swaps);
    } finally {
      await settled(backend.dispose(), "dispose");
    }
  }),
];
