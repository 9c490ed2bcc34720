import type { Program } from "../program/index.js";
import type { PipelineCache } from "../runtime/index.js";
import type { WarmupOptions, WarmupReport } from "./report.js";

/** Compiles all programs side by side. Rejects with the first one's failure once all are done. */
export async function prepareAll(
  programs: ReadonlySet<Program>,
  pipelines: PipelineCache,
  guard: (work: Promise<unknown>) => Promise<void>,
  { onProgress }: WarmupOptions,
): Promise<WarmupReport> {
  const before = pipelines.size;
  let done = 0;
  const results = await Promise.allSettled(
    Array.from(programs, async (program) => {
      await guard(pipelines.prepare([program]));
      onProgress?.(++done, programs.size);
    }),
  );
  for (const result of results) if (result.status === "rejected") throw result.reason;
  return { kernels: programs.size, compiledPipelines: pipelines.size - before };
}
