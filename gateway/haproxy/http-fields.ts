/** The format of values in the map `services`: http-maps.ts writes them, and the rules of https.ts read them. */

/** The fields of values in `services`, in this order, separated by `|`: of an owner's name alone, and of a service. */
export const ownerFields = ['label', 'has'] as const
export const serviceFields = ['network', 'address', 'port', 'bridgePort', 'unavailable', 'tokenDigest'] as const
/** Separates an owner's services: no space, which would end a command's argument. */
export const hasSeparator = '+'
