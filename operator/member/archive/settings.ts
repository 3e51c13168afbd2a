/**
 * Whether a member archives, and where: pure. Off unless its owner has the durable tier and the installation has an
 * archive.
 */
import type { Instance } from '../../objects/instance.ts'
import type { PodSettings } from '../../pod-settings.ts'

export type Archive = NonNullable<PodSettings['archive']>

/** The archive of a member; undefined if it does not archive. */
export const archiveOf = (
  { spec }: Pick<Instance, 'spec'>,
  { archive }: Pick<PodSettings, 'archive'>,
): Archive | undefined => (spec.backup?.durable === true ? archive : undefined)

/**
 * The directory of the marker files of archived WAL: a volume of the pod, so that no copy of the data contains them.
 */
export const markersDirectory = '/var/lib/espalier/archived'

/**
 * The environment variable of Postgres with that directory. A pod from before the durable tier was enabled has none.
 */
export const markersVariable = 'ESPALIER_ARCHIVED'

/** How long the command waits for a marker file before Postgres calls it again, in tenths of a second. */
const waitTenths = 50

/**
 * Succeeds once the agent has archived the file. Starts a process for each 0.1 s that it waits, and none if the marker
 * file exists. In a pod without marker files, and so without an archiving agent, it succeeds at once, as it does in
 * databases without the durable tier.
 */
export const archiveCommand =
  `d=$${markersVariable}; test -n "$d" || exit 0; n=0; ` +
  `until test -e "$d/%f"; do n=$((n+1)); test $n -le ${waitTenths} || exit 1; sleep 0.1; done`
