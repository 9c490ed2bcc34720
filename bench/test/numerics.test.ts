import { expect } from "chai";
import { type Bin, compare } from "#src/numerics/accuracy.js";
import { unaryArguments } from "#src/numerics/arguments.js";
import { Rise, Symmetry } from "#src/numerics/facts.js";
import { rangesOf, rangeText } from "#src/numerics/ranges.js";

const step = 2 ** -23;

/** Results of the identity, with those of some arguments changed. */
function identity(x: readonly number[], changed: (x: number) => number) {
  const numbers = Float32Array.from(x);
  return compare("f32", numbers.map(changed), (value) => value, numbers);
}

function bin(negative: boolean, exponent: number, worst: number, samples = 1): Bin {
  const subnormal = { samples: 0, kept: 0, flushed: 0, worst: 0, at: [] };
  return { negative, exponent, samples, worst, at: [exponent, worst], zeroed: 0, subnormal };
}

describe("the measured accuracy of a function", () => {
  it("is the largest error in units of the exact result, by sign and exponent", () => {
    const found = identity([1, 1.5, 2, 3, -1], (x) => (x === 3 ? 3 + 8 * step : x === 1.5 ? 1.5 - step : x));
    expect(found).to.include({ samples: 5, worst: 4, overflow: "none", underflow: "none" });
    expect(found.at).to.deep.equal([3, 3 + 8 * step]);
    const bins = found.bins.map(({ negative, exponent, worst }) => [negative, exponent, worst]);
    expect(bins).to.deep.equal([
      [true, 0, 0],
      [false, 0, 1],
      [false, 1, 4],
    ]);
  });

  it("is infinite for a NaN and an infinity in place of a number", () => {
    for (const wrong of [Number.NaN, Number.POSITIVE_INFINITY])
      expect(identity([1, 2, 4], (x) => (x === 2 ? wrong : x))).to.include({
        worst: Number.POSITIVE_INFINITY,
      });
  });

  it("counts subnormal results apart, in units of the smallest, and those that are flushed", () => {
    const [least, tiny] = [2 ** -149, 2 ** -130];
    const half = (x: number) => x / 2;
    const x = Float32Array.of(2 ** -126, 1.5 * 2 ** -126, 8);
    const kept = compare("f32", Float32Array.of(2 ** -127 + 3 * least, 1.5 * 2 ** -127, 4), half, x);
    expect(kept).to.include({ worst: 0, samples: 1, underflow: "kept" });
    expect(kept.bins[0]!.subnormal).to.include({ samples: 2, kept: 2, flushed: 0, worst: 3 });
    const flushed = compare("f32", Float32Array.of(0, 0, 4), half, x);
    expect(flushed).to.include({ worst: 0, underflow: "flushed" });
    expect(flushed.bins[0]!.subnormal).to.include({ samples: 2, kept: 0, flushed: 2 });
    const wrong = compare("f32", Float32Array.of(tiny, 0, 4), half, x);
    expect(wrong).to.include({ underflow: "wrong" });
    expect(wrong.stray).to.deep.equal([2 ** -126, tiny]);
  });

  it("counts subnormal arguments that are taken for zeros apart", () => {
    const x = Float32Array.of(2 ** -140, 2 ** -120);
    const found = compare("f32", Float32Array.of(0, 2 ** -60), Math.sqrt, x);
    expect(found.worst).to.equal(0);
    expect(found.bins.map(({ zeroed }) => zeroed)).to.deep.equal([1, 0]);
    const wrong = compare("f32", Float32Array.of(1, 2 ** -60), Math.sqrt, x);
    expect(wrong.worst).to.be.above(1e6);
    // The reciprocal of a smaller one is infinite by itself.
    const inverse = (value: number) => 1 / value;
    const overflow = compare("f32", Float32Array.of(Number.POSITIVE_INFINITY), inverse, x.subarray(0, 1));
    expect(overflow).to.include({ overflow: "infinity" });
    expect(overflow.bins[0]!.zeroed).to.equal(0);
  });

  it("has what comes past the largest number", () => {
    const x = Float32Array.of(1, 2 ** 127);
    const found = (y: number) => compare("f32", Float32Array.of(4, y), (value) => 4 * value, x);
    expect(found(Number.POSITIVE_INFINITY)).to.include({ worst: 0, overflow: "infinity" });
    expect(found(Number.NaN)).to.include({ worst: 0, overflow: "wrong" });
  });

  it("of f32 is taken at arguments of every exponent, and of f16 at all", () => {
    const singles = unaryArguments("f32", 2);
    const exponents = new Set(Array.from(singles, (x) => Math.floor(Math.log2(Math.abs(x)))));
    for (let exponent = -149; exponent < 128; exponent++) expect(exponents).to.include(exponent);
    expect(singles.every(Number.isFinite)).to.equal(true);
    expect([1 + step, 1 - step / 2].every((x) => singles.includes(x))).to.equal(true);
    expect(new Set(unaryArguments("f16", 1)).size).to.equal(2 * 31 * 1024 - 1); // both zeros are one to a set
  });
});

describe("ranges of a function's arguments", () => {
  const texts = (bins: readonly Bin[]) =>
    rangesOf("f32", bins).map((range) => [rangeText(range, "x"), range.worst, range.samples]);

  it("join neighbours whose errors are alike, both signs together", () => {
    const sides = [-2, -1, 0, 1].flatMap((exponent) =>
      [true, false].map((negative) => bin(negative, exponent, exponent < 0 ? 0.5 : negative ? 4 : 5)),
    );
    expect(texts(sides)).to.deep.equal([
      ["0.25 <= |x| < 1", 0.5, 4],
      ["1 <= |x| < 4", 5, 4],
    ]);
  });

  it("are apart by sign where errors differ", () => {
    const bins = [
      bin(true, 1, 6),
      bin(true, -127, 0),
      bin(false, -127, 0.5),
      bin(false, 1, 1),
      bin(false, 127, 1),
    ];
    expect(texts(bins)).to.deep.equal([
      ["-4 < x <= -2", 6, 1],
      ["-2^-126 < x <= 0", 0, 1],
      ["0 <= x", 1, 3],
    ]);
  });

  it("never hold errors that differ by more than a factor of two, however gently they rise", () => {
    const bins = Array.from({ length: 20 }, (_, i) => bin(false, i, 1.2 ** i));
    const ranges = rangesOf("f32", bins);
    expect(ranges.length).to.be.within(6, 12);
    for (const { from, to, worst } of ranges)
      expect(worst / 1.2 ** Math.log2(from)).to.be.at.most(2, `${from} to ${to}`);
  });
});

describe("facts of a function", () => {
  const x = Float32Array.of(1, 2, 3);

  it("notice results that fall, on either side and between pieces", () => {
    const sound = new Rise("exp", "f32");
    sound.see(x, Float32Array.of(1, 1, 2), Float32Array.of(-1, -1, -2));
    sound.see(x, Float32Array.of(2, 4, 5), Float32Array.of(-3, -4, -5));
    expect(sound.fact).to.include({ broken: 0, worst: 0, samples: 12 });
    const falling = new Rise("exp", "f32");
    falling.see(x, Float32Array.of(1, 1 + 3 * step, 1 + step), Float32Array.of(-1, -2, -2 + 4 * step));
    falling.see(x, Float32Array.of(1, 2, 3), Float32Array.of(-2, -3, -4));
    expect(falling.fact).to.include({ broken: 3, worst: 4 });
    expect(falling.fact.example).to.equal(`exp(-2) = -2, exp(-3) = ${-2 + 4 * step}`);
  });

  it("notice results that are not the mirrored ones, down to the sign of a zero", () => {
    for (const isEven of [false, true]) {
      const sign = isEven ? 1 : -1;
      const watch = new Symmetry("sin", "f32", isEven);
      watch.see(x, Float32Array.of(0, 1, 2), Float32Array.of(sign * 0, sign, sign * 2));
      expect(watch.fact).to.include({ broken: 0, samples: 3 });
      watch.see(x, Float32Array.of(0, 1, 2), Float32Array.of(-sign * 0, sign, sign * (2 + 4 * step)));
      expect(watch.fact).to.include({ broken: 2, worst: 2 });
    }
  });
});
