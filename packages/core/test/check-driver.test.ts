import { type BackendDriver, createBackend } from "@backplane/core";
import { FakeDriver, throws } from "./support/fake-driver.js";

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
});
