/**
 * The requirements of a test file, or of an entry of the browser part. Its first line lists them:
 *
 *     // Tags: kernels, long
 *
 * A tag holds for the whole file: tests with different requirements belong in different files.
 */
export const tags = {
  /** Begins first, and alone in its process: it takes more than about ten seconds. */
  long: "takes more than about ten seconds",
  /**
   * Proves the conformance suite itself, the documents or the packages: the reference, the mutants and the
   * packed files are the same on every adapter, and plain JavaScript, which every engine runs alike.
   */
  proof: "proves the suite, the documents or the packages, alike on every adapter and engine",
  /**
   * Runs the kernels of a backend one after the other. The compiler of lavapipe takes up to ten seconds for
   * each. Laws on a backend as a whole, which meet the same kernels, are in files without this tag.
   */
  kernels: "goes through the kernels of a backend one after the other",
  /**
   * Gives the same in an environment (see proven.ts) for as long as what it loads stays the same: it needs no clock, no
   * network, and no file or program but those that it names relative to its modules (see loaded-files.ts). So it is
   * left out where it has passed before with the same code.
   */
  pure: "depends on nothing but the code that it loads, and is left out while that stays the same",
  /**
   * Needs an adapter or an engine, but shows nothing that another one could change, such as how a program answers wrong
   * options, or what code of ours does on a device around its kernels. One of each is enough.
   */
  once: "shows the same on every adapter and engine, and need not meet a second one",
  /** Does the same small work many thousand times: leaks show on any adapter. */
  soak: "does the same work many thousand times",
  /** Starts an engine of its own, such as Chromium or Deno: the Node.js beside it does not matter. */
  engines: "starts another engine than the Node.js that runs it",
} as const;

export type Tag = keyof typeof tags;

export const tagNames: readonly Tag[] = Object.keys(tags) as Tag[];

/** Returns the tags in the first line of a source. Throws if it has some in another form, or unknown ones. */
export function tagsOf(source: string, file: string): readonly Tag[] {
  const line = source.slice(0, source.indexOf("\n"));
  if (!/^\W*tags?\b/i.test(line)) return [];
  const names = /^\/\/ Tags: (\w+(?:, \w+)*)$/.exec(line)?.[1]?.split(", ");
  if (names === undefined) throw new Error(`${file}: "${line}" should read "// Tags: NAME, NAME"`);
  for (const name of names)
    if (!(tagNames as readonly string[]).includes(name))
      throw new Error(`${file}: unknown tag "${name}"; there are ${tagNames.join(", ")}`);
  return names as Tag[];
}

export interface TagFilter {
  /** Only files with one of these. Default: all. */
  readonly tag: readonly Tag[] | undefined;
  /** Leaves out files with one of these. */
  readonly without: readonly Tag[];
}

export function isChosen(ofFile: readonly Tag[], { tag, without }: TagFilter): boolean {
  return (
    (tag?.some((name) => ofFile.includes(name)) ?? true) && !without.some((name) => ofFile.includes(name))
  );
}
