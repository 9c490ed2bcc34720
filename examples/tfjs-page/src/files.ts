import type { Digits } from "@backplane/example-digits/digits.js";

/** Where the server has the digits, as bytes. */
export const trainingPath = "/training";
export const testPath = "/test";

/** How many digits there are. */
export const trainingSize = 10_000;
export const testSize = 2000;

/** Fetches digits from the server. */
export async function fetchDigits(path: string): Promise<Digits> {
  const [images, labels] = await Promise.all(
    ["images", "labels"].map(async (name) => {
      const response = await fetch(`${path}/${name}.bin`);
      if (!response.ok) throw new Error(`The server has no ${path}/${name}.bin: status ${response.status}.`);
      return new Uint8Array(await response.arrayBuffer());
    }),
  );
  return { count: labels!.length, images: images!, labels: labels! };
}
