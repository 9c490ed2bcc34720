import { type BackendRegistry, SwitchableBackend } from "@backplane/core";
import type { ModelArray } from "./files.js";
import type { Picture } from "./images.js";
import { classes, Network } from "./network.js";

/** Where the convolutions run, and where the rest does. */
export type Route = readonly [first: string, then: string];

export interface Result {
  readonly route: Route;
  /** What the network takes each picture for. */
  readonly digits: readonly number[];
  /** The largest difference of a logit from what the file says; undefined if it says nothing. */
  readonly difference: number | undefined;
}

/** Classifies all pictures, with a swap of the backend in the middle if the route has two. */
export async function classify(
  registry: BackendRegistry,
  route: Route,
  model: ReadonlyMap<string, ModelArray>,
  pictures: readonly Picture[],
): Promise<Result> {
  const [first, then] = route;
  const backend = new SwitchableBackend(registry, [first]);
  await backend.init();
  try {
    const network = new Network(backend, model);
    const logits = await network.classify(
      pictures.map(({ pixels }) => pixels),
      async () => {
        if (then !== first) await backend.use(then);
      },
    );
    network.free();
    return { route, digits: digitsOf(logits), difference: differenceOf(logits, pictures) };
  } finally {
    await backend.dispose();
  }
}

/** The place of the largest logit of each picture. */
function digitsOf(logits: Float32Array): number[] {
  return Array.from({ length: logits.length / classes }, (_, i) => {
    const own = logits.subarray(i * classes, (i + 1) * classes);
    return own.indexOf(Math.max(...own));
  });
}

function differenceOf(logits: Float32Array, pictures: readonly Picture[]): number | undefined {
  const differences = pictures.flatMap((picture, i) =>
    picture.logits.map((logit, j) => Math.abs(logits[i * classes + j]! - logit)),
  );
  return differences.length === 0 ? undefined : Math.max(...differences);
}
