/** The files of the page, beside the program: it is a bundle in one directory. */
export const PAGE = new URL('./page/', import.meta.url)
