// A process of its own: from its start to the second product, in milliseconds, as one line of JSON.
const start = performance.now();
const { createCpuBackend } = await import("@backplane/backend-cpu");
const loaded = performance.now();
const backend = createCpuBackend({ threads: Number(process.argv[2]) });
await backend.init();
const ready = performance.now();

const size = 256;
const bytes = 4 * size * size;
const ones = new Float32Array(size * size).fill(1);
const [a, b, c] = [backend.alloc(bytes), backend.alloc(bytes), backend.alloc(bytes)];
backend.copyHtoD(a, ones);
backend.copyHtoD(b, ones);
await backend.synchronize();

const product = async (): Promise<number> => {
  const before = performance.now();
  backend.gemm({ m: size, n: size, k: size, a, b, c });
  await backend.synchronize();
  return performance.now() - before;
};
const first = await product();
const second = await product();

const result = new Float32Array(size * size);
await backend.copyDtoH(result, c);
if (result.some((value) => value !== size)) throw new Error("startup: the product is wrong");
console.log(JSON.stringify({ load: loaded - start, init: ready - loaded, first, second }));
await backend.dispose();

export {};
