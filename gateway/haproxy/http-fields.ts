/**
 * The fields of a value in the map `services`, separated by `|`. http-maps.ts writes them, and the rules of https.ts
 * read them. `ownerFields` are for the key `<owner>`, and `serviceFields` for the key `<owner>/<service>`. An owner is
 * a host name, or `/<database id>`. `has`: the owner's services.
 */
export const ownerFields = ['label', 'has'] as const
export const serviceFields = ['network', 'address', 'port', 'bridgePort', 'unavailable', 'tokenDigest'] as const
/** Separates the services in `has`. A space would end a command's argument. */
export const hasSeparator = '+'
