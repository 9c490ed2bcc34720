import {
  type Accuracy,
  BackendError,
  BackendRegistry,
  createBackend,
  type DriverDescription,
  type DriverEvents,
  floatUnaryKinds,
  inexactBinaryKinds,
  inexactUnaryKinds,
  rangeAt,
  SwitchableBackend,
} from "@backplane/core";
import { assert } from "chai";
import { FakeDriver } from "./support/fake-driver.js";

class DeclaringDriver extends FakeDriver {
  accuracy: unknown;

  override async open(events: DriverEvents): Promise<DriverDescription> {
    return { ...(await super.open(events)), accuracy: this.accuracy as Accuracy };
  }
}

async function failure(accuracy: unknown): Promise<BackendError> {
  const driver = new DeclaringDriver();
  driver.accuracy = accuracy;
  const backend = createBackend(driver);
  const error: unknown = await backend.init().then(
    () => undefined,
    (error: unknown) => error,
  );
  assert.instanceOf(error, BackendError, "init rejects");
  await backend.dispose();
  assert.isFalse(driver.isOpen, "what was opened is closed again");
  return error as BackendError;
}

describe("Declared accuracy", () => {
  const declared: Accuracy = {
    unary: { gelu: [{ below: -1, units: 6.5 }, { below: 0, units: 4 }, { units: 2 }], exp: [{ units: 0.5 }] },
    binary: { pow: 5 },
  };

  it("reaches capabilities as it was declared, through wrappers and JSON", async () => {
    const create = () => {
      const driver = new DeclaringDriver();
      driver.accuracy = declared;
      return createBackend(driver);
    };
    await using backend = create();
    await backend.init();
    assert.deepEqual(backend.capabilities.accuracy, declared);
    assert.deepEqual(JSON.parse(JSON.stringify(backend.capabilities)).accuracy, declared);
    const probe = async () => ({ available: false, reason: "it is not asked" }) as const;
    const provider = { name: "fake", create, probe };
    await using switchable = new SwitchableBackend(new BackendRegistry([provider]));
    await switchable.init();
    assert.deepEqual(switchable.capabilities.accuracy, declared);
  });

  it("is absent where a driver declares none", async () => {
    await using backend = createBackend(new FakeDriver());
    await backend.init();
    assert.notProperty(backend.capabilities, "accuracy");
  });

  it("has the range of every argument", () => {
    const gelu = declared.unary!.gelu!;
    const places = [Number.NEGATIVE_INFINITY, -1.5, -1, -0.5, -0, 0, 1e30, Number.NaN].map((x) =>
      rangeAt(gelu, x),
    );
    assert.deepEqual(places, [0, 0, 1, 1, 2, 2, 2, 2]);
    assert.equal(rangeAt([{ units: 1 }], -5), 0);
  });

  it("is of functions that are not exact on every backend", () => {
    const exact = ["relu", "relu6", "abs", "neg", "floor", "ceil", "round", "trunc", "sign"] as const;
    assert.sameMembers([...inexactUnaryKinds, ...exact], [...floatUnaryKinds]);
    assert.deepEqual(inexactBinaryKinds, ["add", "sub", "mul", "div", "mod", "floorDiv", "atan2", "pow"]);
  });

  for (const [what, accuracy, message] of [
    ["a number", 3, /init: accuracy is 3; allowed: an object/],
    ["an unknown operation", { reduce: {} }, /accuracy\.reduce is unknown/],
    [
      "a misspelt function",
      { unary: { gellu: [{ units: 1 }] } },
      /accuracy\.unary\.gellu is unknown \(is gelu meant/,
    ],
    ["an exact function", { unary: { relu: [{ units: 1 }] } }, /accuracy\.unary\.relu is unknown/],
    ["an exact binary one", { binary: { max: 1 } }, /accuracy\.binary\.max is unknown/],
    ["no list", { unary: { exp: { units: 1 } } }, /accuracy\.unary\.exp is .*; allowed: a list of ranges/],
    ["no range", { unary: { exp: [] } }, /accuracy\.unary\.exp is .*; allowed: a list of ranges/],
    ["no units", { unary: { exp: [{}] } }, /exp\[0\]\.units is undefined; allowed: finite numbers above 0/],
    ["units of 0", { unary: { exp: [{ units: 0 }] } }, /exp\[0\]\.units is 0; allowed/],
    [
      "infinite units",
      { unary: { exp: [{ units: Number.POSITIVE_INFINITY }] } },
      /exp\[0\]\.units is Infinity/,
    ],
    ["units of NaN", { binary: { pow: Number.NaN } }, /accuracy\.binary\.pow is NaN/],
    ["an argument that is none", { unary: { exp: [{ units: 1, above: 2 }] } }, /exp\[0\]\.above is unknown/],
    [
      "ranges that do not cover all",
      { unary: { sin: [{ below: 6000, units: 1 }] } },
      /sin\[0\]\.below is 6000; allowed: none/,
    ],
    [
      "ranges with none that ends",
      { unary: { sin: [{ units: 1 }, { units: 2 }] } },
      /sin\[0\]\.below is undefined/,
    ],
    [
      "ranges out of order",
      { unary: { sin: [{ below: 2, units: 1 }, { below: 2, units: 1 }, { units: 2 }] } },
      /sin\[1\]\.below is 2; allowed: finite numbers above 2/,
    ],
    [
      "an infinite end",
      { unary: { sin: [{ below: Number.POSITIVE_INFINITY, units: 1 }, { units: 2 }] } },
      /sin\[0\]\.below is Infinity/,
    ],
  ] as const)
    it(`is refused with ${what}`, async () => {
      const error = await failure(accuracy);
      assert.equal(error.code, "INVALID_ARGUMENT");
      assert.equal(error.operation, "init");
      assert.match(error.message, message);
    });
});
