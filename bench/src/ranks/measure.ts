import { parseArgs } from "node:util";
import { createCpuBackend } from "@backplane/backend-cpu";
import { openCommunicator } from "@backplane/collectives";
import { commandLine } from "../command-line.js";
import { quantile } from "../statistics.js";

const usage = `mpirun -n RANKS node bench/dist/ranks/measure.js

Measures latency and bandwidth of allReduce on so many ranks of the CPU backend.

  --help  this text
`;

commandLine(usage, () => parseArgs({ options: { help: { type: "boolean", default: false } } }).values);

const rounds = 15;
/** Elements of f32. */
const counts = [1, 1024, 2 ** 18, 2 ** 22];

const backend = createCpuBackend({ threads: 1 });
await backend.init();
await using communicator = await openCommunicator();
const { rank, size, engine } = communicator;
const handle = backend.alloc(4 * counts.at(-1)!);
const host = new Uint8Array(4 * counts.at(-1)!);
/** The copies that every call makes, without the others: down and up again. */
const copies = async (count: number): Promise<void> => {
  const bytes = host.subarray(0, 4 * count);
  await backend.copyDtoH(bytes, handle);
  backend.copyHtoD(handle, bytes);
};
const timed = async (body: () => Promise<void>): Promise<number> => {
  const start = performance.now();
  await body();
  await backend.synchronize();
  return performance.now() - start;
};
if (rank === 0)
  console.log(`${engine}, ${size} ranks; medians of ${rounds} rounds, taken in turn, in milliseconds`);
for (const count of counts) {
  const times = { barrier: [] as number[], copies: [] as number[], allReduce: [] as number[] };
  for (let round = 0; round < rounds; round++) {
    times.barrier.push(await timed(() => communicator.barrier()));
    times.copies.push(await timed(() => copies(count)));
    times.allReduce.push(await timed(() => communicator.allReduce(backend, { input: handle, count })));
  }
  const texts = Object.entries(times).map(([name, list]) => {
    const least = Math.min(...list);
    return `${name} ${quantile(list, 0.5).toFixed(3)} (least ${least.toFixed(3)})`;
  });
  if (rank === 0) console.log(`${4 * count} bytes: ${texts.join(", ")}`);
}
await backend.dispose();
