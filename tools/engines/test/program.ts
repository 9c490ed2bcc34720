// Run by each engine: opens the CPU backend, compares a product of matrices with one in double
// precision, and says how far off it is. Parameters: threads, and whether to dispose of the backend.
import { createCpuBackend } from "@backplane/backend-cpu";

const [threads, ending] = process.argv.slice(2);
const n = 150;
const backend = createCpuBackend({ threads: Number(threads) });
await backend.init();

const random = (seed: number) =>
  Float32Array.from({ length: n * n }, (_, i) => Math.sin(seed + 12.9898 * i) % 1);
const [x, y, z] = [random(1), random(2), new Float32Array(n * n)];
const [a, b, c] = [backend.alloc(4 * n * n), backend.alloc(4 * n * n), backend.alloc(4 * n * n)];
backend.copyHtoD(a, x);
backend.copyHtoD(b, y);
backend.gemm({ m: n, n, k: n, a, b, c });
await backend.copyDtoH(z, c);

let error = 0;
for (let i = 0; i < n; i++)
  for (let j = 0; j < n; j++) {
    let sum = 0;
    for (let k = 0; k < n; k++) sum += x[i * n + k]! * y[k * n + j]!;
    error = Math.max(error, Math.abs(sum - z[i * n + j]!));
  }
const { details } = backend.capabilities.device;
if (ending === "dispose") await backend.dispose();
console.log(JSON.stringify({ error, details }));
