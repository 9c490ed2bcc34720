// Packages are found from the folder of the module that imports them, and these are installed here only.

/** Imports one of the libraries to compare with. */
export const load = (name) => import(name);
