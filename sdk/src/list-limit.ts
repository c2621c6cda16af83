/** The longest list, in bytes: the default limit of gRPC implementations for one message. */
export const MAX_LIST_BYTES = 4 * 1024 * 1024
