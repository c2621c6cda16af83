/** The limits of a response. */
export interface UaTcpLimits {
  /**
   * The largest chunk with its header, in bytes; OPC 10000-6, 7.1.2.3 requires at least 8192.
   * @default 65536
   */
  readonly chunkBytes: number
  /** The largest response without chunk headers, in bytes. @default 1048576 */
  readonly messageBytes: number
  /** The number of chunks of a response. @default 256 */
  readonly chunks: number
  /** The number of elements of an array. @default 2000 */
  readonly elements: number
}

export const UA_TCP_LIMITS: UaTcpLimits = {
  chunkBytes: 65_536,
  messageBytes: 1024 * 1024,
  chunks: 256,
  elements: 2000,
}
