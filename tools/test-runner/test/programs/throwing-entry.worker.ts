throw new Error("thrown while loading");

// A file without imports or exports would not be a module.
export {};
