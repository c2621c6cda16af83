/** The image of akri.js in deploy/manifests. */
export const IMAGE = 'localhost/akri-agent:0.1.0'
