/** A small manual, and questions that use other words. Each question has the index of the passage that answers it. */

export const corpus: readonly string[] = [
  'A vacuum removes row versions that no transaction can see any more. Without it tables grow although nothing is added to them.',
  'To restore a backup to a point in time, name the moment; the server replays its log up to there and stops.',
  'Replicas receive every change a moment after the primary. A query on a replica may therefore miss the newest rows.',
  'An index on the columns of a WHERE clause lets the planner avoid reading the whole table.',
  'Roles may be granted to other roles. A member inherits the privileges of the role it belongs to.',
  'The pool keeps connections open, so that a request does not have to wait until a new one has been made.',
  'A deadlock arises when two transactions each wait for a lock that the other holds. One of them is ended with an error.',
  'Certificates are renewed thirty days before they expire. Clients need not do anything.',
  'Passwords are stored as salted hashes and never shown again after they have been set.',
  'A column of type numeric keeps every digit, while double precision rounds to about fifteen of them.',
  'Partitions split a large table by ranges of dates, so that old data can be dropped in an instant.',
  'When the disk is nearly full, the volume grows by itself, up to the limit that the plan allows.',
  'The invoice is written on the first day of each month and lists storage, compute hours and outgoing traffic.',
  'A branch is a copy of a database that shares its storage with the original until one of them changes.',
  'Alerts are sent by mail or to a webhook once a threshold has been exceeded for five minutes.',
  'Our soup kitchen opens at noon; bread is baked on the premises every morning.',
]

export const questions: readonly { readonly question: string; readonly answer: number }[] = [
  { question: 'Why does my relation keep getting bigger when I insert nothing?', answer: 0 },
  { question: 'I deleted data by accident an hour ago, how do I get yesterday evening back?', answer: 1 },
  { question: 'Why is a record I just saved not visible on the standby?', answer: 2 },
  { question: 'How can I speed up filtering by customer number?', answer: 3 },
  { question: 'Two sessions block each other forever, what happens then?', answer: 6 },
  { question: 'Which data type is right for money without losing cents?', answer: 9 },
  { question: 'How do I get rid of last year’s records quickly?', answer: 10 },
  { question: 'What am I charged for?', answer: 12 },
  { question: 'Can I try out a migration on a clone of production cheaply?', answer: 13 },
  { question: 'How will I be notified if something goes wrong?', answer: 14 },
]
