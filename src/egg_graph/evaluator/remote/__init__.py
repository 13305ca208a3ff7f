"""An evaluator elsewhere: questions and answers in a folder or over HTTP, and the queue that has them judged."""
