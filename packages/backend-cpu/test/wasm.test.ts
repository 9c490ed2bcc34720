import { expect } from "chai";
import { flatten, signed, unsigned } from "#src/wasm/encoding.js";
import {
  callValue,
  type FunctionBuilder,
  f32,
  f32x4,
  f64x2,
  i8x16,
  i16x8,
  i32,
  i32x4,
  ModuleBuilder,
  select,
  shuffle32,
  type Value,
  v128,
} from "#src/wasm/index.js";

import { describeEitherWay } from "./workbench.js";

const memoryLimits = { initialPages: 1, maximumPages: 1, shared: false };

type Exports = Readonly<Record<string, (...operands: number[]) => number>>;

function instantiate(builder: ModuleBuilder): { exports: Exports; memory: WebAssembly.Memory } {
  const memory = new WebAssembly.Memory({ initial: 1, maximum: 1 });
  const module = new WebAssembly.Module(builder.toBytes());
  const instance = new WebAssembly.Instance(module, { env: { memory } });
  return { exports: instance.exports as unknown as Exports, memory };
}

/** Runs statements once and returns the first words of the memory, which they can write to. */
function run(body: (f: FunctionBuilder) => void, input: readonly number[] = []): Int32Array {
  const builder = new ModuleBuilder(memoryLimits);
  builder.function("run", {}, body, { export: true });
  const { exports, memory } = instantiate(builder);
  new Float32Array(memory.buffer, 1024, input.length).set(input);
  exports.run!();
  return new Int32Array(memory.buffer);
}

/** The four f32 of a vector expression. */
function lanes(expression: () => Value<"v128">): number[] {
  const words = run((f) => f.store(0, expression()));
  return [...new Float32Array(words.buffer, 0, 4)];
}

function intLanes(expression: () => Value<"v128">): number[] {
  return [...run((f) => f.store(0, expression())).subarray(0, 4)];
}

describe("WebAssembly encoding", () => {
  it("writes LEB128 as the format wants it", () => {
    expect([...flatten(unsigned(624485))]).to.deep.equal([0xe5, 0x8e, 0x26]);
    expect([...flatten(unsigned(0xffffffff))]).to.deep.equal([0xff, 0xff, 0xff, 0xff, 0x0f]);
    expect([...flatten(signed(-123456))]).to.deep.equal([0xc0, 0xbb, 0x78]);
    for (const [value, bytes] of [
      [0, [0]],
      [63, [63]],
      [64, [0xc0, 0]],
      [-64, [0x40]],
      [-65, [0xbf, 0x7f]],
      [127, [0xff, 0]],
    ] as const)
      expect([...flatten(signed(value))], String(value)).to.deep.equal(bytes);
  });

  it("passes constants of every size through", () => {
    const values = [0, 1, -1, 63, 64, -64, -65, 127, 128, 8191, 8192, 2 ** 31 - 1, -(2 ** 31), 123456789];
    const words = run((f) => {
      for (const [i, value] of values.entries()) f.store(4 * i, i32.const(value));
    });
    expect([...words.subarray(0, values.length)]).to.deep.equal(values);
  });

  it("takes unsigned 32-bit constants", () => {
    expect(run((f) => f.store(0, i32.const(0xfffffff0)))[0]).to.equal(-16);
  });
});

describe("WebAssembly control", () => {
  it("counts with forRange, unsigned, also where there is nothing to do", () => {
    const words = run((f) => {
      const rounds = f.local("i32");
      f.forRange(0, 10, () => f.add(rounds, 1), { step: 3 });
      f.store(0, rounds);
      f.set(rounds, 0);
      f.forRange(5, 5, () => f.add(rounds, 1));
      f.forRange(-3, 3, () => f.add(rounds, 1));
      f.store(4, rounds);
      f.forRange(-3, 3, () => f.add(rounds, 1), { signed: true });
      f.store(8, rounds);
      // Past 2^31: unsigned comparison.
      f.forRange(0x7ffffffe, 0x80000002, () => f.add(rounds, 1));
      f.store(12, rounds);
    });
    expect([...words.subarray(0, 4)]).to.deep.equal([4, 0, 6, 10]);
  });

  it("leaves and repeats blocks from any depth", () => {
    const words = run((f) => {
      const n = f.local("i32");
      f.block((exit) => {
        f.loop((again) => {
          f.add(n, 1);
          f.if(i32.eq(n, 7), () => {
            f.if(1, () => f.br(exit));
          });
          f.brIf(again, i32.ltU(n, 100));
          f.unreachable();
        });
      });
      f.store(0, n);
      f.while(i32.ltU(n, 20), () => f.add(n, 6));
      f.store(4, n);
      f.if(
        0,
        () => f.unreachable(),
        (exit) => {
          f.store(8, i32.const(5));
          f.br(exit);
          f.unreachable();
        },
      );
      f.return();
      f.unreachable();
    });
    expect([...words.subarray(0, 3)]).to.deep.equal([7, 25, 5]);
  });

  it("calls functions, with and without results, also ones built while another is", () => {
    const builder = new ModuleBuilder(memoryLimits);
    builder.functionOf(
      "f32",
      "main",
      { x: "f32" },
      (f, { x }) => {
        const square = builder.shared("square", (label) =>
          builder.functionOf("f32", label, { x: "f32" }, (_, p) => f32.mul(p.x, p.x)),
        );
        const again = builder.shared("square", () => {
          throw new Error("built twice");
        });
        const note = builder.function("note", { at: "i32", value: "f32" }, (g, p) => g.store(p.at, p.value));
        f.call(note, 16, x);
        return f32.add(callValue("f32", square, x), callValue("f32", again, 2));
      },
      { export: true },
    );
    const { exports, memory } = instantiate(builder);
    expect(exports.main!(3)).to.equal(13);
    expect(new Float32Array(memory.buffer)[4]).to.equal(3);
  });

  it("refuses a call with the wrong number of operands or type of result", () => {
    const builder = new ModuleBuilder(memoryLimits);
    const callee = builder.function("callee", { x: "i32" }, () => {});
    builder.function("caller", {}, (f) => {
      expect(() => f.call(callee)).to.throw(TypeError, "takes 1");
      expect(() => callValue("i32", callee, 1)).to.throw(TypeError, "returns");
    });
  });
});

describe("WebAssembly operators", () => {
  it("does f32x4 arithmetic", () => {
    const a = f32x4.const(1, -2, 3.5, -0);
    const b = f32x4.const(2);
    expect(lanes(() => f32x4.add(a, b))).to.deep.equal([3, 0, 5.5, 2]);
    expect(lanes(() => f32x4.sub(a, b))).to.deep.equal([-1, -4, 1.5, -2]);
    expect(lanes(() => f32x4.mul(a, b))).to.deep.equal([2, -4, 7, -0]);
    expect(lanes(() => f32x4.div(a, b))).to.deep.equal([0.5, -1, 1.75, -0]);
    expect(lanes(() => f32x4.max(a, b))).to.deep.equal([2, 2, 3.5, 2]);
    expect(lanes(() => f32x4.min(a, b))).to.deep.equal([1, -2, 2, -0]);
    expect(lanes(() => f32x4.abs(a))).to.deep.equal([1, 2, 3.5, 0]);
    expect(lanes(() => f32x4.neg(a))).to.deep.equal([-1, 2, -3.5, 0]);
    expect(lanes(() => f32x4.sqrt(f32x4.const(4, 9, 2.25, 0)))).to.deep.equal([2, 3, 1.5, 0]);
    const c = f32x4.const(-1.5, 2.5, 0.5, 1.2);
    expect(lanes(() => f32x4.floor(c))).to.deep.equal([-2, 2, 0, 1]);
    expect(lanes(() => f32x4.ceil(c))).to.deep.equal([-1, 3, 1, 2]);
    expect(lanes(() => f32x4.trunc(c))).to.deep.equal([-1, 2, 0, 1]);
    expect(lanes(() => f32x4.nearest(c))).to.deep.equal([-2, 2, 0, 1]);
    expect(lanes(() => f32x4.pmax(f32x4.const(Number.NaN), b))).to.deep.equal([NaN, NaN, NaN, NaN]);
    expect(lanes(() => f32x4.pmax(b, f32x4.const(Number.NaN)))).to.deep.equal([2, 2, 2, 2]);
    expect(lanes(() => f32x4.replaceLane(2, a, 9))).to.deep.equal([1, -2, 9, -0]);
    expect(lanes(() => f32x4.splat(f32x4.extractLane(1, a)))).to.deep.equal([-2, -2, -2, -2]);
  });

  it("does integer arithmetic, comparisons and shifts", () => {
    const a = i32x4.const(1, -2, 3, 0x40000000);
    expect(intLanes(() => i32x4.add(a, i32x4.const(1)))).to.deep.equal([2, -1, 4, 0x40000001]);
    expect(intLanes(() => i32x4.shl(a, 1))).to.deep.equal([2, -4, 6, -0x80000000]);
    expect(intLanes(() => i32x4.shrS(a, 1))).to.deep.equal([0, -1, 1, 0x20000000]);
    expect(intLanes(() => i32x4.shrU(a, 1))).to.deep.equal([0, 0x7fffffff, 1, 0x20000000]);
    expect(intLanes(() => i32x4.gtS(a, i32x4.const(1)))).to.deep.equal([0, 0, -1, -1]);
    expect(intLanes(() => i32x4.ltU(a, i32x4.const(2)))).to.deep.equal([-1, 0, 0, 0]);
    expect(intLanes(() => i32x4.maxS(a, i32x4.const(2)))).to.deep.equal([2, 2, 3, 0x40000000]);
    expect(intLanes(() => i32x4.truncSatF32x4S(f32x4.const(1.9, -1.9, 1e20, NaN)))).to.deep.equal([
      1, -1, 0x7fffffff, 0,
    ]);
    expect(lanes(() => f32x4.convertI32x4S(a))).to.deep.equal([1, -2, 3, 2 ** 30]);
    expect(intLanes(() => i16x8.narrowI32x4S(a, a))).to.deep.equal([
      -131071, 0x7fff0003, -131071, 0x7fff0003,
    ]);
    expect(intLanes(() => i32x4.extendLowI16x8U(i16x8.const(-1)))).to.deep.equal([
      65535, 65535, 65535, 65535,
    ]);
    expect(intLanes(() => i32x4.splat(i32x4.bitmask(a)))).to.deep.equal([2, 2, 2, 2]);
    expect(intLanes(() => i8x16.const(1))).to.deep.equal(new Array(4).fill(0x01010101));
  });

  it("selects, shuffles and masks", () => {
    const a = i32x4.const(0, 1, 2, 3);
    const b = i32x4.const(4, 5, 6, 7);
    expect(intLanes(() => shuffle32([3, 4, 0, 7], a, b))).to.deep.equal([3, 4, 0, 7]);
    expect(intLanes(() => v128.bitselect(a, b, i32x4.const(-1, 0, -1, 0)))).to.deep.equal([0, 5, 2, 7]);
    expect(intLanes(() => v128.andnot(b, i32x4.const(4)))).to.deep.equal([0, 1, 2, 3]);
    expect(intLanes(() => v128.not(a))).to.deep.equal([-1, -2, -3, -4]);
    expect(intLanes(() => select(a, b, 0))).to.deep.equal([4, 5, 6, 7]);
    expect(intLanes(() => i32x4.splat(select(i32.const(8), i32.const(9), 1)))).to.deep.equal([8, 8, 8, 8]);
    expect(intLanes(() => i32x4.splat(v128.anyTrue(i32x4.const(0))))).to.deep.equal([0, 0, 0, 0]);
    expect(intLanes(() => i32x4.splat(i32.minU(-1, 5)))).to.deep.equal([5, 5, 5, 5]);
    expect(intLanes(() => i32x4.splat(i32.minS(-1, 5)))).to.deep.equal([-1, -1, -1, -1]);
  });

  it("loads and stores in every width", () => {
    const words = run(
      (f) => {
        f.store(0, v128.load32Splat(1028));
        f.store(16, v128.load64Zero(1024));
        f.store(32, v128.load32Zero(1024, 8));
        const v = f.let(v128.load(1024));
        f.storeLane(32, 3, 48, v);
        f.storeLane(64, 1, 52, v);
        f.store(64, v128.load32Lane(2, 1024, i32x4.const(0)));
        f.store8(80, i32.load8U(1027));
        f.store16(81, i32.load16U(1026));
        f.store(96, f64x2.promoteLowF32x4(v));
        f.store(112, f32x4.demoteF64x2Zero(f64x2.promoteLowF32x4(v)));
        f.memoryFill(128, 0xab, 5);
        f.memoryCopy(140, 1024, 4);
      },
      [1, 2, 3, 4],
    );
    const floats = new Float32Array(words.buffer);
    expect([...floats.subarray(0, 12)]).to.deep.equal([2, 2, 2, 2, 1, 2, 0, 0, 3, 0, 0, 0]);
    expect([...floats.subarray(12, 20)]).to.deep.equal([4, 3, 4, 0, 0, 0, 1, 0]);
    expect([...new Uint8Array(words.buffer, 80, 4)]).to.deep.equal([0x3f, 0x80, 0x3f, 0]);
    expect([...new Float64Array(words.buffer, 96, 2)]).to.deep.equal([1, 2]);
    expect([...floats.subarray(28, 32)]).to.deep.equal([1, 2, 0, 0]);
    expect([...new Uint8Array(words.buffer, 128, 6)]).to.deep.equal([0xab, 0xab, 0xab, 0xab, 0xab, 0]);
    expect(floats[35]).to.equal(1);
  });

  it("has opcodes that every engine accepts, for all that it offers", () => {
    const tables = { f32x4, f64x2, i16x8, i32x4 } as unknown as Record<
      string,
      Record<string, (...operands: unknown[]) => Value>
    >;
    const vector = i32x4.const(1);
    for (const [table, operators] of Object.entries(tables)) {
      for (const [operator, make] of Object.entries(operators)) {
        if (["const", "splat", "extractLane", "extractLaneU", "replaceLane"].includes(operator)) continue;
        if (operator.startsWith("relaxed")) continue;
        const isShift = operator.startsWith("sh");
        const value = isShift ? make(vector, 3) : make(vector, vector);
        const builder = new ModuleBuilder(memoryLimits);
        // A unary operator ignores the second operand.
        builder.function("probe", {}, (f) => {
          f.let(value);
        });
        expect(WebAssembly.validate(builder.toBytes()), `${table}.${operator}`).to.equal(true);
      }
    }
  });
});

describeEitherWay("WebAssembly arithmetic", (options) => {
  it("multiplies, adds and chooses", () => {
    const builder = new ModuleBuilder(memoryLimits, options);
    builder.function(
      "run",
      {},
      (f) => {
        const [a, b, c] = [0, 16, 32].map((at) => f.let(v128.load(1024, at)));
        f.store(0, f.multiplyAdd(a!, b!, c!));
        f.store(16, f.multiplySubtract(a!, b!, c!));
        f.store(32, f.choose(a!, b!, f32x4.lt(a!, b!)));
      },
      { export: true },
    );
    const { exports, memory } = instantiate(builder);
    new Float32Array(memory.buffer, 1024).set([1, 2, 3, 4, 5, -6, 7, -8, 0.5, 0.25, -1, 100]);
    exports.run!();
    const results = [...new Float32Array(memory.buffer, 0, 12)];
    expect(results.slice(0, 4)).to.deep.equal([5.5, -11.75, 20, 68]);
    expect(results.slice(4, 8)).to.deep.equal([-4.5, 12.25, -22, 132]);
    expect(results.slice(8)).to.deep.equal([1, -6, 3, -8]);
    // The relaxed instructions are two bytes: 0x105 in LEB128.
    const bytes = Buffer.from(builder.toBytes());
    expect(bytes.includes(Buffer.from([0xfd, 0x85, 0x02]))).to.equal(options.relaxedSimd);
  });
});
