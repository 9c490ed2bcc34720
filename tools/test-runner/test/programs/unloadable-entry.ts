// Not found at run time, and of no interest to the compiler.
const missing = "./missing.js";
await import(missing);
