import { type BackendDriver, createBackend, type DriverDescription } from "@backplane/core";
import { assert } from "chai";
import { FakeDriver, rejects, throws } from "./support/fake-driver.js";

describe("createBackend", () => {
  const refuses = (part: object, argument: string) =>
    throws(
      "INVALID_ARGUMENT",
      () => createBackend(Object.assign(new FakeDriver(), part) as BackendDriver),
      argument,
    );
  const run = () => {};
  const withUnary = (kernel: unknown) => ({ kernels: { unary: kernel } });

  it("refuses drivers without a name or a method", () => {
    throws("INVALID_ARGUMENT", () => createBackend(undefined as never), "driver");
    refuses({ name: "" }, "name");
    for (const method of ["open", "read", "reservedBytes", "native"])
      refuses({ [method]: undefined }, method);
  });

  it("refuses kernels that no call could reach, because a name is misspelt", () => {
    refuses({ kernels: undefined }, "kernels");
    refuses({ kernels: { unry: { supports: [{ dtype: ["f32"] }], run } } }, "kernels.unry");
    refuses(withUnary(run), "kernels.unary");
    refuses(withUnary({ supports: [{ dtype: ["f32"] }] }), "kernels.unary.run");
    refuses(withUnary({ run }), "kernels.unary.supports");
    refuses(withUnary({ supports: { dtype: ["f32"] }, run }), "kernels.unary.supports");
    refuses(withUnary({ supports: [{ dtypes: ["f32"] }], run }), "kernels.unary.supports[0].dtypes");
    refuses(withUnary({ supports: [{ kind: ["exp"] }], run }), "kernels.unary.supports[0]");
    refuses(withUnary({ supports: [{ dtype: "f32" }], run }), "kernels.unary.supports[0].dtype");
    refuses(withUnary({ supports: [{ dtype: ["f64"] }], run }), "kernels.unary.supports[0].dtype");
    const kinds = [{ dtype: ["f32"] }, { dtype: ["f32"], kind: ["exq"] }];
    refuses(withUnary({ supports: kinds, run }), "kernels.unary.supports[1].kind");
    const gemm = { supports: [{ dtype: ["f32"], bias: "yes" }], run };
    refuses({ kernels: { gemm } }, "kernels.gemm.supports[0].bias");
  });

  it("has init() refuse what open() returns if a member is missing or malformed, and close the device", async () => {
    const refusesOpening = async (change: (result: DriverDescription) => unknown, argument: string) => {
      const driver = new FakeDriver();
      const { open } = driver;
      let isWrong = true;
      driver.open = async (events) => {
        const result = await open.call(driver, events);
        return isWrong ? (change(result) as DriverDescription) : result;
      };
      const backend = createBackend(driver);
      const error = await rejects("INVALID_ARGUMENT", backend.init());
      assert.match(error.message, /^init: .*open\(\)/);
      assert.equal(error.argument, argument);
      assert.equal(backend.state, "new");
      isWrong = false;
      await backend.init();
      assert.deepEqual([driver.opened, driver.closed], [2, 1]);
      await backend.dispose();
    };
    const without =
      (part: string, member?: string) =>
      (result: DriverDescription): object => {
        const given = result[part as keyof DriverDescription] as object;
        return { ...result, [part]: member === undefined ? undefined : { ...given, [member]: undefined } };
      };
    await refusesOpening(() => undefined, "open()");
    for (const part of ["device", "limits", "numerics"]) await refusesOpening(without(part), part);
    for (const [part, member] of [
      ["device", "kind"],
      ["device", "name"],
      ["device", "software"],
      ["device", "details"],
      ["limits", "maxAllocationBytes"],
      ["numerics", "nan"],
      ["numerics", "deterministic"],
    ] as const)
      await refusesOpening(without(part, member), `${part}.${member}`);
    await refusesOpening(
      (result) => ({ ...result, numerics: { ...result.numerics, subnormals: "unspecified" } }),
      "numerics.subnormals",
    );
    await refusesOpening(
      (result) => ({ ...result, numerics: { ...result.numerics, transformedConvolutions: "8x8" } }),
      "numerics.transformedConvolutions",
    );
    await refusesOpening((result) => ({ ...result, synchronousReads: "yes" }), "synchronousReads");
  });
});
