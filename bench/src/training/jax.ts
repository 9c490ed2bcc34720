import { installedVersion } from "../cpu/installed.js";
import { asInPage } from "../cpu/jax.js";
import { loadPeer } from "../cpu/peer.js";
import {
  batch,
  classes,
  labels,
  type ModelName,
  optimizer,
  pixels,
  side,
  type Task,
  type Trainee,
} from "./task.js";

/** Reference counted: being passed to a function uses it up, `ref` is one more of it. */
interface JaxArray {
  readonly ref: JaxArray;
  readonly shape: readonly number[];
  data(): Promise<Float32Array>;
  dispose(): void;
}

type Arrays = readonly JaxArray[];
type Loss = (parameters: Arrays, images: JaxArray, targets: JaxArray) => JaxArray;
type Step = (
  parameters: Arrays,
  velocities: Arrays,
  images: JaxArray,
  targets: JaxArray,
) => readonly [parameters: Arrays, velocities: Arrays];

type JaxDevice = "wasm" | "webgpu";

/** The used part of @jax-js/jax. */
interface Jax {
  init(device: JaxDevice): Promise<readonly string[]>;
  defaultDevice(device: JaxDevice): string;
  jit<Compute extends Loss | Step>(compute: Compute): Compute;
  valueAndGrad(loss: Loss): (...inputs: Parameters<Loss>) => readonly [JaxArray, Arrays];
  blockUntilReady(arrays: Arrays): Promise<Arrays>;
  readonly numpy: {
    array(
      data: Float32Array,
      options: { readonly shape: readonly number[]; readonly dtype: "float32" },
    ): JaxArray;
    zeros(shape: readonly number[]): JaxArray;
    add(a: JaxArray, b: JaxArray): JaxArray;
    subtract(a: JaxArray, b: JaxArray): JaxArray;
    multiply(a: JaxArray, b: JaxArray | number): JaxArray;
    matmul(a: JaxArray, b: JaxArray): JaxArray;
    max(x: JaxArray, axes: readonly number[]): JaxArray;
    sum(x: JaxArray): JaxArray;
    reshape(x: JaxArray, shape: readonly number[]): JaxArray;
  };
  readonly nn: {
    relu(x: JaxArray): JaxArray;
    logSoftmax(x: JaxArray, axis: number): JaxArray;
  };
  readonly lax: {
    convGeneralDilated(
      x: JaxArray,
      filter: JaxArray,
      strides: readonly number[],
      padding: readonly (readonly number[])[],
      options: object,
    ): JaxArray;
  };
}

interface OpenedJax {
  readonly name: string;
  open(task: Task): Promise<Trainee>;
}

/** Loads jax-js on a number of threads. Rejects if it does not start. */
export async function openJax(threads: number): Promise<OpenedJax> {
  const inPage: InPage = (work) => asInPage(threads, work);
  const how = `jit, ${threads} ${threads === 1 ? "thread" : "threads"}`;
  return openOn("wasm", how, inPage);
}

/** Loads jax-js on WebGPU, whose globals must be there. Rejects if it does not start. */
export async function openJaxOnGpu(): Promise<OpenedJax> {
  return openOn("webgpu", "jit, webgpu", (work) => work());
}

/** Does what may look at globals of pages. */
type InPage = <Result>(work: () => Promise<Result>) => Promise<Result>;

async function openOn(device: JaxDevice, how: string, inPage: InPage): Promise<OpenedJax> {
  const jax = await inPage(() => loadPeer<Jax>("@jax-js/jax"));
  if (!(await jax.init(device)).includes(device)) throw new Error(`jax-js has no ${device} here`);
  jax.defaultDevice(device);
  return {
    name: `jax-js ${installedVersion("@jax-js/jax")}, ${how}`,
    open: async (task) => open(jax, inPage, task, device === "wasm"),
  };
}

/** @param waits whether each step is waited for */
function open(jax: Jax, inPage: InPage, { model, parameters: start }: Task, waits: boolean): Trainee {
  const { numpy } = jax;
  const array = (values: Float32Array, shape: readonly number[]) =>
    numpy.array(values, { shape, dtype: "float32" });
  const images = array(
    Float32Array.from(pixels, (pixel) => pixel / 255),
    [batch, side * side],
  );
  const targets = array(
    Float32Array.from({ length: batch * classes }, (_, i) =>
      labels[Math.floor(i / classes)] === i % classes ? 1 : 0,
    ),
    [batch, classes],
  );
  const forward = forwards(jax)[model];
  const loss: Loss = (parameters, x, wanted) => {
    const logarithms = jax.nn.logSoftmax(forward(parameters, x), -1);
    return numpy.multiply(numpy.sum(numpy.multiply(logarithms, wanted)), -1 / batch);
  };
  const both = jax.valueAndGrad(loss);
  const compiledLoss = jax.jit(loss);
  const step = jax.jit<Step>((parameters, velocities, x, wanted) => {
    const [value, gradients] = both(
      parameters.map((parameter) => parameter.ref),
      x,
      wanted,
    );
    value.dispose();
    const changes = velocities.map((velocity, i) =>
      numpy.add(numpy.multiply(velocity, optimizer.momentum), gradients[i]!),
    );
    const changed = parameters.map((parameter, i) =>
      numpy.subtract(parameter, numpy.multiply(changes[i]!.ref, optimizer.rate)),
    );
    return [changed, changes];
  });
  let parameters: Arrays = start.map(({ shape, values }) => array(values, shape));
  let velocities: Arrays = start.map(({ shape }) => numpy.zeros(shape));
  return {
    step: () =>
      inPage(async () => {
        [parameters, velocities] = step(parameters, velocities, images.ref, targets.ref);
        if (waits) await jax.blockUntilReady(parameters);
      }),
    settle: () =>
      inPage(async () => {
        await jax.blockUntilReady(parameters);
      }),
    loss: () =>
      inPage(async () => {
        const value = compiledLoss(
          parameters.map((parameter) => parameter.ref),
          images.ref,
          targets.ref,
        );
        return (await value.data())[0]!;
      }),
    close() {
      for (const each of [...parameters, ...velocities, images, targets]) each.dispose();
    },
  };
}

/** The models of models.ts. */
function forwards({
  numpy,
  nn,
  lax,
}: Jax): Readonly<Record<ModelName, (parameters: Arrays, images: JaxArray) => JaxArray>> {
  const linear = (x: JaxArray, weight?: JaxArray, bias?: JaxArray) =>
    numpy.add(numpy.matmul(x, weight!), bias!);
  const features = (x: JaxArray, filter?: JaxArray, bias?: JaxArray) => {
    const none = [0, 0];
    const sums = lax.convGeneralDilated(x, filter!, [1, 1], [none, none], {});
    const shifted = numpy.add(sums, numpy.reshape(bias!, [1, -1, 1, 1]));
    const [images, channels, height, width] = shifted.shape as [number, number, number, number];
    const windows = numpy.reshape(shifted, [images, channels, height / 2, 2, width / 2, 2]);
    return nn.relu(numpy.max(windows, [3, 5]));
  };
  return {
    mlp: ([w1, b1, w2, b2, w3, b3], images) =>
      linear(nn.relu(linear(nn.relu(linear(images, w1, b1)), w2, b2)), w3, b3),
    cnn([f1, c1, f2, c2, w1, b1, w2, b2], images) {
      const maps = features(features(numpy.reshape(images, [batch, 1, side, side]), f1, c1), f2, c2);
      return linear(nn.relu(linear(numpy.reshape(maps, [batch, -1]), w1, b1)), w2, b2);
    },
  };
}
