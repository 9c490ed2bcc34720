/** Modules that few devices need, so that a page loads them when it opens such a device. */
export interface OnDemand<Modules> {
  /** Gives programs that have all kernels these, too. */
  provide(modules: Modules): void;
  load(): Promise<void>;
  /** Only after they were loaded: variants that need them are possible only on devices for which they were. */
  get(): Modules;
}

export function onDemand<Modules>(load: () => Promise<Modules>): OnDemand<Modules> {
  let modules: Modules | undefined;
  return {
    provide(given) {
      modules = given;
    },
    async load() {
      modules ??= await load();
    },
    get: () => modules!,
  };
}
