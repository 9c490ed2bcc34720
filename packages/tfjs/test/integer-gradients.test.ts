import assert from "node:assert/strict";
import { cpu } from "@backplane/backend-cpu";
import { type Registration, register } from "@backplane/tfjs";
import * as tf from "@tensorflow/tfjs-core";

/* Kernels of gradients take int32 as the same numbers in float32. */

const pool = { filterSize: 2, strides: 1, pad: "valid" };
const dilation = { strides: 1, pad: "same", dilations: 1 };
const resize = { alignCorners: false, halfPixelCenters: false };

interface Case {
  readonly shapes: Readonly<Record<string, readonly number[]>>;
  readonly attributes: tf.NamedAttrMap;
}

const images = [1, 3, 3, 1];
const volumes = [1, 3, 3, 3, 1];
const raised = { x: images, filter: [2, 2, 1], dy: images };

const cases: Readonly<Record<string, Case>> = {
  MaxPoolGrad: {
    shapes: { dy: [1, 2, 2, 1], input: images, output: [1, 2, 2, 1] },
    attributes: pool,
  },
  AvgPoolGrad: { shapes: { dy: [1, 2, 2, 1], input: images }, attributes: pool },
  ResizeBilinearGrad: { shapes: { dy: [1, 6, 6, 1], images }, attributes: resize },
  ResizeNearestNeighborGrad: { shapes: { dy: [1, 6, 6, 1], images }, attributes: resize },
  MaxPool3DGrad: { shapes: { dy: [1, 2, 2, 2, 1], input: volumes }, attributes: pool },
  AvgPool3DGrad: { shapes: { dy: [1, 2, 2, 2, 1], input: volumes }, attributes: pool },
  Dilation2DBackpropInput: { shapes: raised, attributes: dilation },
  Dilation2DBackpropFilter: { shapes: raised, attributes: dilation },
};

describe("gradients at int32", () => {
  let registration: Registration;

  before(async () => {
    registration = await register(tf, [cpu()], { name: "integer gradients" });
  });

  after(async () => {
    await tf.setBackend("cpu");
    await registration.dispose();
  });

  for (const [name, { shapes, attributes }] of Object.entries(cases))
    it(name, async () => {
      const gradient = async (dtype: "int32" | "float32"): Promise<number[]> => {
        const { numTensors } = tf.memory();
        const result = tf.tidy(() => {
          const inputs = Object.entries(shapes).map(([input, shape]) => {
            const length = shape.reduce((product, extent) => product * extent, 1);
            const values = Array.from({ length }, (_, i) => ((i * 7) % 11) - 3);
            return [input, tf.tensor(values, [...shape], dtype)] as const;
          });
          return tf.engine().runKernel(name, Object.fromEntries(inputs), attributes) as tf.Tensor;
        });
        assert.equal(result.dtype, "float32");
        const values = [...(await result.data())];
        result.dispose();
        assert.equal(tf.memory().numTensors, numTensors);
        return values;
      };
      const expected = await gradient("float32");
      assert.ok(expected.some((value) => value !== 0));
      assert.deepEqual(await gradient("int32"), expected);
    });
});
