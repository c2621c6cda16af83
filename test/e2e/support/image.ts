/** Of the system, as deploy/manifests names it. */
export const IMAGE = 'localhost/akri-agent:0.1.0'
