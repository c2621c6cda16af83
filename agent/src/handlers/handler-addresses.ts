/** The network addresses at which the agent dials handlers. */
export interface HandlerAddresses {
  /**
   * @param address an IP address
   * @returns the present holder of the address, by a name that is unique; undefined if the agent
   * must not dial the address
   */
  holderOf(address: string): string | undefined
}
